//! Named pipes, as mio takes them. An island of `unsafe` code.
//!
//! Both ends are opened for overlapped operations, which mio's [`NamedPipe`] stands on.

#![expect(unsafe_code, reason = "named pipes have no face in std")]

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io,
    os::windows::{
        ffi::OsStrExt,
        fs::OpenOptionsExt,
        io::{AsRawHandle, FromRawHandle, IntoRawHandle, OwnedHandle},
    },
    ptr,
};

use mio::windows::NamedPipe;
use windows_sys::Win32::{
    Foundation::INVALID_HANDLE_VALUE,
    Storage::FileSystem::{
        FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_DUPLEX,
        PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND,
    },
    System::Pipes::{
        CreateNamedPipeW, GetNamedPipeInfo, PIPE_READMODE_MESSAGE, PIPE_REJECT_REMOTE_CLIENTS,
        PIPE_SERVER_END, PIPE_TYPE_MESSAGE, PIPE_UNLIMITED_INSTANCES, SetNamedPipeHandleState,
    },
};

/// Which end of a pipe a handle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeEnd {
    /// It was opened.
    Client,
    /// It was created.
    Server,
}

/// What the system knows of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeInfo {
    /// Which end this is.
    pub end: PipeEnd,
    /// Whether bytes are written as messages.
    pub has_messages: bool,
    /// How many servers of this name there may be, 255 for as many as the system has room for.
    pub max_instances: u32,
    /// Bytes that the system holds of what is to be sent.
    pub out_buffer_size: u32,
    /// Bytes that the system holds of what has arrived.
    pub in_buffer_size: u32,
}

impl PipeInfo {
    /// Asks the system.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn of(pipe: &NamedPipe) -> io::Result<Self> {
        let [
            mut flags,
            mut out_buffer_size,
            mut in_buffer_size,
            mut max_instances,
        ] = [0; 4];
        // SAFETY: the handle is open, and the pointers are valid for a write of one number each.
        let answer = unsafe {
            GetNamedPipeInfo(
                pipe.as_raw_handle(),
                &raw mut flags,
                &raw mut out_buffer_size,
                &raw mut in_buffer_size,
                &raw mut max_instances,
            )
        };
        if answer == 0 {
            return Err(io::Error::last_os_error());
        }
        let is_server = flags & PIPE_SERVER_END != 0;
        Ok(Self {
            end: if is_server {
                PipeEnd::Server
            } else {
                PipeEnd::Client
            },
            has_messages: flags & PIPE_TYPE_MESSAGE != 0,
            max_instances,
            out_buffer_size,
            in_buffer_size,
        })
    }
}

/// How a server's end of a pipe is made.
#[derive(Clone, Debug)]
pub struct PipeServer {
    /// The client may write, and the server read.
    pub inbound: bool,
    /// The server may write, and the client read.
    pub outbound: bool,
    /// It is an error if the name has a server already.
    pub is_first: bool,
    /// Clients on other machines are refused.
    pub rejects_remote: bool,
    /// Bytes are written and read as messages.
    pub has_messages: bool,
    /// How many servers of this name there may be, up to 254. None: as many as there is room for.
    pub max_instances: Option<u8>,
    /// Bytes that the system holds of what is to be sent.
    pub out_buffer_size: u32,
    /// Bytes that the system holds of what has arrived.
    pub in_buffer_size: u32,
}

impl PipeServer {
    /// Makes the end of a server.
    ///
    /// # Errors
    ///
    /// What the system says, and `ErrorKind::InvalidInput` for a pipe that nobody may write to.
    pub fn create(&self, name: &OsStr) -> io::Result<NamedPipe> {
        let access = match (self.inbound, self.outbound) {
            (true, true) => PIPE_ACCESS_DUPLEX,
            (true, false) => PIPE_ACCESS_INBOUND,
            (false, true) => PIPE_ACCESS_OUTBOUND,
            (false, false) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a pipe has to be open in at least one direction: set `access_inbound` or \
                     `access_outbound`",
                ));
            }
        };
        let chosen = |yes: bool, flag: u32| if yes { flag } else { 0 };
        let open =
            access | FILE_FLAG_OVERLAPPED | chosen(self.is_first, FILE_FLAG_FIRST_PIPE_INSTANCE);
        let mode = chosen(self.has_messages, PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE)
            | chosen(self.rejects_remote, PIPE_REJECT_REMOTE_CLIENTS);
        let instances = self
            .max_instances
            .map_or(PIPE_UNLIMITED_INSTANCES, u32::from);
        let name = wide(name)?;
        // SAFETY: the name ends with a zero, and the null asks for the default access rights.
        let handle = unsafe {
            CreateNamedPipeW(
                name.as_ptr(),
                open,
                mode,
                instances,
                self.out_buffer_size,
                self.in_buffer_size,
                0,
                ptr::null(),
            )
        };
        if handle == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system has just made this handle for us.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        Ok(of_handle(handle))
    }
}

/// Opens the end of a client. `security` is the quality of service that a server may have of it,
/// as `SECURITY_SQOS_PRESENT` and its like have it.
///
/// # Errors
///
/// What the system says: `ERROR_PIPE_BUSY` (231) if no server of that name waits for a client.
pub fn open_client(
    name: &OsStr,
    reads: bool,
    writes: bool,
    has_messages: bool,
    security: u32,
) -> io::Result<NamedPipe> {
    let file = OpenOptions::new()
        .read(reads)
        .write(writes)
        .custom_flags(FILE_FLAG_OVERLAPPED)
        .security_qos_flags(security)
        .open(name)?;
    if has_messages {
        let mode = PIPE_READMODE_MESSAGE;
        // SAFETY: the handle is open; `mode` is read during the call; the nulls ask for no change.
        let answer = unsafe {
            SetNamedPipeHandleState(
                file.as_raw_handle(),
                &raw const mode,
                ptr::null(),
                ptr::null(),
            )
        };
        if answer == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(of_handle(file.into()))
}

fn of_handle(handle: OwnedHandle) -> NamedPipe {
    // SAFETY: the handle is ours to give, and is one of a pipe that was opened for overlapped
    // operations. (Another kind of file would get errors.)
    unsafe { NamedPipe::from_raw_handle(handle.into_raw_handle()) }
}

/// The name as the system takes it.
fn wide(name: &OsStr) -> io::Result<Vec<u16>> {
    let mut wide: Vec<_> = name.encode_wide().collect();
    if wide.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the name of a pipe has a zero character in it",
        ));
    }
    wide.push(0);
    Ok(wide)
}
