//! Cuts a byte stream into server-sent events (WHATWG HTML, 9.2.6) wherever the network cut it.
//! Keeps nothing but `data`; an event that the stream ends in the middle of does not count.

/// The longest line and the longest event, in bytes. A provider that sends more is not one.
const MOST: usize = 8 * 1024 * 1024;

/// An event or line is longer than anything a provider says.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {MOST} bytes")]
pub(crate) struct TooLong;

/// The state between two pieces of a stream.
#[derive(Debug, Default)]
pub(crate) struct EventStream {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return: a line feed after it ends no further line.
    after_return: bool,
    started: bool,
}

impl EventStream {
    /// Takes a piece and hands each event it completes to `each`.
    pub(crate) fn push(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_return) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = piece.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.line.extend_from_slice(piece);
                return self.bounded();
            };
            self.line.extend_from_slice(&piece[..end]);
            self.bounded()?;
            self.after_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            self.end_line(&mut each);
        }
        Ok(())
    }

    fn bounded(&self) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() > MOST { Err(TooLong) } else { Ok(()) }
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8])) {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                each(&self.data);
                self.data.clear();
            }
        } else if let Some(value) = line.strip_prefix(b"data") {
            let value = match value {
                [b':', b' ', rest @ ..] | [b':', rest @ ..] => rest,
                [] => &[],
                // A longer field name.
                _ => return self.reuse(line),
            };
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        self.reuse(line);
    }

    /// Keeps the line's memory for the next one.
    fn reuse(&mut self, mut line: Vec<u8>) {
        line.clear();
        self.line = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut stream = EventStream::default();
        let mut events = Vec::new();
        for piece in pieces {
            let keep = |data: &[u8]| events.push(String::from_utf8(data.to_vec()).unwrap());
            stream.push(piece, keep).unwrap();
        }
        events
    }

    #[test]
    fn only_data_counts_and_only_of_whole_events() {
        let text = "\u{feff}data: a\nevent: x\n: comment\n\ndata:b\ndata:  c\r\n\r\ndatax: d\n\ndata\n\ndata: e\n";
        assert_eq!(events(&[text.as_bytes()]), ["a", "b\n c", ""]);
    }

    #[test]
    fn a_stream_without_line_ends_is_refused() {
        let mut stream = EventStream::default();
        let piece = vec![b'x'; MOST / 2 + 1];
        stream.push(&piece, |_| {}).unwrap();
        assert_eq!(stream.push(&piece, |_| {}), Err(TooLong));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            lines in proptest::collection::vec("(data: ?\\PC{0,8}|: c|event: e|)", 0..12),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 12),
            cuts in proptest::collection::vec(0_usize..200, 0..12),
        ) {
            let text: String =
                lines.iter().zip(ends).map(|(line, end)| format!("{line}{end}")).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().filter(|c| *c < bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }
    }
}
