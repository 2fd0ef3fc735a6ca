//! Edges of epoll, then `recv` and `send`.

use std::io;

use super::{INTEREST, READABLE, Server};
use crate::{
    epoll::{Epoll, NO_EVENT},
    meter::Figures,
};

pub(super) fn serve(server: &mut Server, until_empty: bool) -> io::Result<Figures> {
    server.set_nonblocking()?;
    let epoll = Epoll::new()?;
    for (token, stream) in server.connections.iter().enumerate() {
        epoll.add(stream, INTEREST | libc::EPOLLET, token as u64)?;
    }
    let mut events = vec![NO_EVENT; 1024];
    let mut buffer = [0; 4096];
    loop {
        let found = epoll.wait(&mut events)?;
        server.meter.calls += 1;
        server.meter.rounds += 1;
        for event in &events[..found] {
            let (happened, token) = (event.events as i32, event.u64 as usize);
            if happened & READABLE != 0 {
                server.answer(token, &mut buffer, until_empty)?;
            }
        }
        if let Some(figures) = server.meter.look()? {
            server.shut_down();
            return Ok(figures);
        }
    }
}
