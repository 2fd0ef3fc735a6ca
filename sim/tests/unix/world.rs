//! What the programs have: sockets by numbers, and notes of what they see.

#![expect(unsafe_code, reason = "poll, which the standard library does not have")]

use std::{
    fmt::Debug,
    io,
    mem::MaybeUninit,
    net::Shutdown,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt},
        },
    },
    path::PathBuf,
};

use socket2::{Domain, SockAddr, Socket, Type};

pub(crate) type Sock = usize;

pub(crate) struct World {
    folder: PathBuf,
    sockets: Vec<Option<Socket>>,
    pub(crate) lines: Vec<String>,
}

impl World {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            sockets: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn add(&mut self, socket: Socket) -> Sock {
        socket.set_nonblocking(true).unwrap();
        self.sockets.push(Some(socket));
        self.sockets.len() - 1
    }

    pub(crate) fn get(&self, s: Sock) -> &Socket {
        self.sockets[s].as_ref().unwrap()
    }

    pub(crate) fn make(&mut self, kind: Type) -> Sock {
        self.add(Socket::new(Domain::UNIX, kind, None).unwrap())
    }

    pub(crate) fn pair(&mut self, kind: Type) -> (Sock, Sock) {
        let (a, b) = Socket::pair(Domain::UNIX, kind, None).unwrap();
        (self.add(a), self.add(b))
    }

    /// The address of a file in the folder of the program; `@x` is abstract.
    pub(crate) fn addr(&self, name: &str) -> SockAddr {
        let path = match name.strip_prefix('@') {
            Some(name) => {
                let id = self.folder.file_name().unwrap().to_str().unwrap();
                PathBuf::from(format!("\0{id}-{name}"))
            }
            None => self.folder.join(name),
        };
        SockAddr::unix(path).unwrap()
    }

    /// Notes an answer: its value, or the number of its error.
    pub(crate) fn say<T: Debug>(&mut self, what: &str, answer: io::Result<T>) {
        self.lines.push(match answer {
            Ok(value) => format!("{what}: {value:?}"),
            Err(error) => format!("{what}: {:?} {:?}", error.raw_os_error(), error.kind()),
        });
    }

    pub(crate) fn bind(&mut self, s: Sock, name: &str) {
        let bound = self.get(s).bind(&self.addr(name));
        self.say(&format!("bind {name}"), bound);
    }

    /// Binds to an address of so many bytes, which has no name.
    pub(crate) fn bind_to_family_alone(&mut self, s: Sock, len: libc::socklen_t) {
        let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
        // SAFETY: the address is no longer than the family.
        let bound = unsafe { libc::bind(self.get(s).as_raw_fd(), family.as_ptr().cast(), len) };
        let bound = match bound {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        self.say("bind", bound);
    }

    pub(crate) fn listen(&mut self, s: Sock, backlog: i32) {
        let listens = self.get(s).listen(backlog);
        self.say("listen", listens);
    }

    pub(crate) fn connect(&mut self, s: Sock, name: &str) {
        let connected = self.get(s).connect(&self.addr(name));
        self.say(&format!("connect {name}"), connected);
    }

    /// A listener of a name.
    pub(crate) fn listener(&mut self, name: &str) -> Sock {
        let s = self.make(Type::STREAM);
        self.bind(s, name);
        self.listen(s, 8);
        s
    }

    /// Both ends of an accepted connection: the client's, and the server's.
    pub(crate) fn connection(&mut self, name: &str) -> (Sock, Sock, Sock) {
        let listener = self.listener(name);
        let client = self.make(Type::STREAM);
        self.connect(client, name);
        let server = self.accept(listener).unwrap();
        (client, server, listener)
    }

    pub(crate) fn accept(&mut self, s: Sock) -> Option<Sock> {
        match self.get(s).accept() {
            Ok((socket, peer)) => {
                let peer = self.shown(&peer);
                self.lines.push(format!("accept: {peer}"));
                Some(self.add(socket))
            }
            Err(error) => {
                self.say::<()>("accept", Err(error));
                None
            }
        }
    }

    /// An address without the folder, which differs from run to run.
    fn shown(&self, addr: &SockAddr) -> String {
        if addr.is_unnamed() {
            return "unnamed".to_owned();
        }
        match (addr.as_pathname(), addr.as_abstract_namespace()) {
            (Some(path), _) => format!("path {:?} {}", path.file_name().unwrap(), {
                path.as_os_str().as_bytes().len() == addr.len() as usize - 3
            }),
            (None, Some(name)) => format!("abstract, {} bytes", name.len()),
            (None, None) => format!("{} bytes", addr.len()),
        }
    }

    pub(crate) fn names(&mut self, s: Sock) {
        for (what, addr) in [
            ("own name", self.get(s).local_addr()),
            ("peer's name", self.get(s).peer_addr()),
        ] {
            let addr = addr.map(|addr| self.shown(&addr));
            self.say(what, addr);
        }
    }

    pub(crate) fn write(&mut self, s: Sock, data: &[u8]) {
        let sent = self.get(s).send(data);
        self.say("send", sent);
    }

    pub(crate) fn send_to(&mut self, s: Sock, data: &[u8], name: &str) {
        let sent = self.get(s).send_to(data, &self.addr(name));
        self.say(&format!("send to {name}"), sent);
    }

    pub(crate) fn read(&mut self, s: Sock, most: usize) {
        self.read_with(s, most, 0);
    }

    pub(crate) fn read_with(&mut self, s: Sock, most: usize, flags: i32) {
        let mut buffer = vec![MaybeUninit::new(0); most];
        let received = self.get(s).recv_from_with_flags(&mut buffer, flags);
        let received = received.map(|(len, from)| {
            let filled = buffer.iter().take(len);
            // SAFETY: all of it was initialised.
            let bytes: Vec<u8> = filled.map(|byte| unsafe { byte.assume_init() }).collect();
            let from = match from.len() {
                0 => "nobody".to_owned(),
                _ => self.shown(&from),
            };
            (len, String::from_utf8_lossy(&bytes).into_owned(), from)
        });
        self.say("receive", received);
    }

    pub(crate) fn shutdown(&mut self, s: Sock, how: Shutdown) {
        let shut = self.get(s).shutdown(how);
        self.say("shutdown", shut);
    }

    pub(crate) fn close(&mut self, s: Sock) {
        self.sockets[s] = None;
    }

    pub(crate) fn error(&mut self, s: Sock) {
        let error = self.get(s).take_error();
        self.say("error", error.map(|e| e.map(|e| e.raw_os_error())));
    }

    /// What the socket is ready for, and the bytes that wait.
    pub(crate) fn ready(&mut self, s: Sock) {
        let all = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
        let mut entry = libc::pollfd {
            fd: self.get(s).as_raw_fd(),
            events: all,
            revents: 0,
        };
        // SAFETY: `entry` is one valid pollfd for the time of the call, as the count says.
        assert!(unsafe { libc::poll(&mut entry, 1, 0) } >= 0);
        let names = [
            (libc::POLLIN, "in"),
            (libc::POLLOUT, "out"),
            (libc::POLLRDHUP, "rdhup"),
            (libc::POLLHUP, "hup"),
            (libc::POLLERR, "err"),
        ];
        let set = names.iter().filter(|(bit, _)| entry.revents & bit != 0);
        let set: Vec<_> = set.map(|(_, name)| *name).collect();
        self.lines.push(format!("ready: {}", set.join(" ")));
    }

    pub(crate) fn unread(&mut self, s: Sock) {
        let mut waits: libc::c_int = -1;
        // SAFETY: this request writes a number.
        let answer = unsafe { libc::ioctl(self.get(s).as_raw_fd(), libc::FIONREAD, &mut waits) };
        self.lines.push(format!("unread: {answer} {waits}"));
    }

    /// A number of an option of the level of sockets.
    pub(crate) fn option(&mut self, s: Sock, name: i32) -> io::Result<i32> {
        let (mut value, mut len) = (0_i32, 4);
        let fd = self.get(s).as_raw_fd();
        // SAFETY: there is room for a number.
        let answer = unsafe {
            let out = (&raw mut value).cast();
            libc::getsockopt(fd, libc::SOL_SOCKET, name, out, &mut len)
        };
        match answer {
            0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn unlink(&mut self, name: &str) {
        let removed = std::fs::remove_file(self.folder.join(name));
        self.say(&format!("unlink {name}"), removed);
    }

    /// Notes the type and the permissions of a file.
    pub(crate) fn kind_of_file(&mut self, name: &str) {
        let about = std::fs::symlink_metadata(self.folder.join(name));
        let kind = about.map(|about| (about.file_type(), format!("{:o}", about.mode())));
        let kind = kind.map(|(kind, mode)| (kind.is_socket(), kind.is_file(), mode));
        self.say(&format!("file {name}"), kind);
    }

    /// Notes what is in the folder.
    pub(crate) fn folder(&mut self) {
        let entries = std::fs::read_dir(&self.folder).unwrap().map(Result::unwrap);
        let names = entries.map(|one| (one.file_name(), one.file_type().unwrap().is_socket()));
        let mut names: Vec<_> = names.collect();
        names.sort();
        self.say("folder", Ok(names));
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let renamed = std::fs::rename(self.folder.join(from), self.folder.join(to));
        self.say(&format!("rename {from} {to}"), renamed);
    }

    pub(crate) fn open(&mut self, name: &str) {
        let opened = std::fs::File::open(self.folder.join(name)).map(drop);
        self.say(&format!("open {name}"), opened);
    }
}
