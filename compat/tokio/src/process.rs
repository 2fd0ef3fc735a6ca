//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/process/).

mod command;
mod pipe;

use std::{
    future::poll_fn,
    io,
    process::{ExitStatus, Output},
    task::Poll,
};

use ws_net::process as ws;

pub use self::{
    command::Command,
    pipe::{ChildStderr, ChildStdin, ChildStdout},
};
use crate::io::{AsyncRead, AsyncReadExt};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/process/struct.Child.html).
#[derive(Debug)]
pub struct Child {
    state: State,
    /// What the child reads, if it was asked for.
    pub stdin: Option<ChildStdin>,
    /// What the child writes, if it was asked for.
    pub stdout: Option<ChildStdout>,
    /// What the child writes as errors, if it was asked for.
    pub stderr: Option<ChildStderr>,
}

#[derive(Debug)]
enum State {
    Running(Running),
    Done(ExitStatus),
}

#[derive(Debug)]
struct Running {
    child: ws::Child,
    kill_on_drop: bool,
}

impl Running {
    fn kill(&mut self) -> io::Result<()> {
        self.child.get_mut().kill()?;
        self.kill_on_drop = false;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // std kills none that has been reaped.
        if self.kill_on_drop {
            let _it_may_have_ended = self.kill();
        }
    }
}

impl Child {
    fn new(mut child: std::process::Child, kill_on_drop: bool) -> io::Result<Self> {
        let stdin = child.stdin.take().map(ChildStdin::from_std);
        let stdout = child.stdout.take().map(ChildStdout::from_std);
        let stderr = child.stderr.take().map(ChildStderr::from_std);
        Ok(Self {
            state: State::Running(Running {
                child: ws::Child::new(child)?,
                kill_on_drop,
            }),
            stdin: stdin.transpose()?,
            stdout: stdout.transpose()?,
            stderr: stderr.transpose()?,
        })
    }

    /// The process's number, until it was waited for.
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::Running(running) => Some(running.child.get_ref().id()),
            State::Done(_) => None,
        }
    }

    /// Kills the child, and does not wait for its end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn start_kill(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Running(running) => running.kill(),
            State::Done(_) => Ok(()),
        }
    }

    /// Kills the child, and waits for its end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await?;
        Ok(())
    }

    /// Closes the child's input, and waits for its end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        poll_fn(|cx| match &mut self.state {
            State::Running(running) => running.child.poll_wait(cx).map_ok(|status| {
                self.state = State::Done(status);
                status
            }),
            State::Done(status) => Poll::Ready(Ok(*status)),
        })
        .await
    }

    /// The child's status, if it has ended.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.state {
            State::Running(running) => {
                let status = running.child.try_wait()?;
                if let Some(status) = status {
                    self.state = State::Done(status);
                }
                Ok(status)
            }
            State::Done(status) => Ok(Some(*status)),
        }
    }

    /// Waits for the child's end, and reads what it writes meanwhile.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        async fn read(pipe: &mut Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                pipe.read_to_end(&mut bytes).await?;
            }
            Ok(bytes)
        }

        // They stay open until all is read: a child may write on after it has closed one of them.
        let (mut stdout, mut stderr) = (self.stdout.take(), self.stderr.take());
        let all = crate::try_join!(self.wait(), read(&mut stdout), read(&mut stderr));
        let (status, stdout, stderr) = all?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }
}
