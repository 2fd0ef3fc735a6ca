//! Response bodies: bytes that are there, or a file that is read while it is sent.
//!
//! A file is read in pieces, each by a blocking task, and one piece ahead: while hyper writes one
//! to the socket, the next is read. So a download holds two pieces in memory, whatever the size of
//! the file, and a client that reads slowly makes the file be read slowly.
//!
//! The length is fixed when the file is opened, because `Content-Length` has gone out by then. A
//! file that grows meanwhile is sent up to that length. One that shrinks is an error, upon which
//! hyper closes the connection: the client sees that something is missing.

use std::{
    fs::File,
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::body::{Bytes, Frame, SizeHint};
use ws::task::JoinHandle;

/// How much of a file is read at a time: enough to make the way to another thread and back small
/// beside the read itself.
const PIECE_BYTES: usize = 128 * 1024;

/// A body.
pub(crate) enum Content {
    /// Taken when it is sent.
    Bytes(Bytes),
    File(FileReader),
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) => file.left,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

impl hyper::body::Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        let piece = match &mut *self {
            Self::Bytes(bytes) => Ok(std::mem::take(bytes)),
            Self::File(file) => ready!(file.poll_piece(cx)),
        };
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

/// What a blocking task gives back: the file, and what it read of it.
type Reading = JoinHandle<(File, io::Result<Vec<u8>>)>;

/// A file on its way out.
pub(crate) struct FileReader {
    /// Bytes that have not been handed out.
    left: u64,
    /// The read of the next piece; none if nothing was left to read, or after an error.
    reading: Option<Reading>,
}

impl FileReader {
    /// Starts to read the first `len` bytes.
    pub(crate) fn new(file: File, len: u64) -> Self {
        Self {
            left: len,
            reading: (len > 0).then(|| read(file, len)),
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(Err(io::Error::other("the file could not be read before")));
        };
        let joined = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let (file, piece) = joined.map_err(io::Error::other)?;
        let piece = piece?;
        if piece.is_empty() {
            let missing = format!("the file ends {} bytes early", self.left);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, missing)));
        }
        self.left -= piece.len() as u64;
        if self.left > 0 {
            self.reading = Some(read(file, self.left));
        }
        Poll::Ready(Ok(piece.into()))
    }
}

/// Reads the next piece of a file on a thread that may block. Never more than `left` bytes.
fn read(mut file: File, left: u64) -> Reading {
    ws::spawn_blocking(move || {
        let mut piece =
            Vec::with_capacity(PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES)));
        let limit = left.min(PIECE_BYTES as u64);
        let read = file.by_ref().take(limit).read_to_end(&mut piece);
        (file, read.map(|_| piece))
    })
}
