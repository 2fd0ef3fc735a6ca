//! Messages of protocol buffers, as far as Perfetto's traces need them: see
//! <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Rejected: `perfetto_protos` and the like. To build one takes a minute and a compiler of protocol
//! buffers. It has all messages of Perfetto, and a trace needs eleven of them. `tests/ecosystem`
//! uses that crate to read what is written here.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As empty as a new one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// An unsigned integer, an enum, a bool, or a signed integer that is not negative.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        self.raw(field << 3 | VARINT);
        self.raw(value);
    }

    pub(super) fn fixed(&mut self, field: u64, value: u64) {
        self.raw(field << 3 | FIXED_64);
        self.0.extend(value.to_le_bytes());
    }

    /// A string, or a message.
    pub(super) fn bytes(&mut self, field: u64, value: &[u8]) {
        self.bytes_head(field, value.len());
        self.0.extend(value);
    }

    /// What stands before so many bytes.
    pub(super) fn bytes_head(&mut self, field: u64, length: usize) {
        self.raw(field << 3 | BYTES);
        self.raw(length as u64);
    }

    /// A message inside of this one.
    pub(super) fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, inner.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the page on the encoding.
    #[test]
    fn fields_are_encoded_as_the_page_says() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.message(3, |inner| inner.number(1, 150));
        message.fixed(4, 1);
        let bytes = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x21\x01\0\0\0\0\0\0\0";
        assert_eq!(message.as_bytes(), bytes);
        message.clear();
        message.number(16, u64::MAX);
        let all_ones = b"\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(message.as_bytes(), all_ones);
    }
}
