//! Frames as bytes.

use std::io;

use amq_protocol::frame::{AMQPFrame, WriteContext, gen_frame, parse_frame};

/// The bytes of a frame.
pub fn bytes(frame: &AMQPFrame) -> Vec<u8> {
    let body = match frame {
        AMQPFrame::Body(_, body) => body.len(),
        _ => 0,
    };
    let mut bytes = vec![0; 4096 + body];
    let written = gen_frame(frame)(WriteContext::from(&mut bytes[..]));
    let (_, length) = written
        .map(WriteContext::into_inner)
        .expect("a frame of a test is short");
    bytes.truncate(length as usize);
    bytes
}

/// Takes the first frame out of what has come, if it is there whole.
///
/// # Errors
///
/// If that is no frame.
pub fn take(come: &mut Vec<u8>) -> io::Result<Option<AMQPFrame>> {
    if come.is_empty() {
        return Ok(None);
    }
    match parse_frame(&come[..]) {
        Ok((rest, frame)) => {
            let length = come.len() - rest.len();
            come.drain(..length);
            Ok(Some(frame))
        }
        Err(error) if error.is_incomplete() => Ok(None),
        Err(error) => Err(io::Error::other(format!("no frame: {error:?}"))),
    }
}
