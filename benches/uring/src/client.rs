//! The load: a process with one thread and level-triggered epoll, the same for all servers. It
//! sends, reads the answer, and sends the next request, until the server closes its connections.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    epoll::{Epoll, NO_EVENT},
    meter,
    work::Work,
};

pub(crate) fn run(
    address: SocketAddr,
    work: Work,
    connections: usize,
    cpu: usize,
) -> io::Result<()> {
    meter::stay_on(cpu)?;
    let epoll = Epoll::new()?;
    let mut streams = Vec::new();
    for token in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        epoll.add(&stream, libc::EPOLLIN, token as u64)?;
        streams.push(stream);
    }
    for mut stream in &streams {
        stream.write_all(work.request())?;
    }
    let mut events = vec![NO_EVENT; 1024];
    let mut buffer = [0; 4096];
    loop {
        let found = epoll.wait(&mut events)?;
        for event in &events[..found] {
            let mut stream = &streams[event.u64 as usize];
            match stream.read(&mut buffer) {
                Ok(length) if length == work.answer_len() => {}
                Ok(0) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Ok(length) => return Err(io::Error::other(format!("{length} bytes"))),
                Err(error) => return Err(error),
            }
            match stream.write_all(work.request()) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                result => result?,
            }
        }
    }
}
