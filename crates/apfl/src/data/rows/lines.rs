//! Counts the lines of a CSV file as an editor does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;

use memchr::{memchr, memchr_iter, memchr2};

/// Start and number of each non-empty line that was read from the file but not yet returned as a
/// row.
pub(super) type LineStarts = Rc<RefCell<VecDeque<(u64, u64)>>>;

/// The longest row, in bytes. A longer one is not a table and could fill the memory (a gzip of
/// zeros, a quote that is closed a gigabyte later).
const MAX_ROW: u64 = 32 << 20;

/// Counts the lines of a file as an editor does. The CSV reader's own count is too low if lines end
/// in \r\n or are empty.
pub(super) struct LineCounter<R> {
    from: R,
    at: u64,
    /// The start of this row.
    row: u64,
    line: u64,
    /// Whether the line is empty so far.
    line_is_empty: bool,
    starts: LineStarts,
    quotes: QuoteState,
    unclosed: Rc<Cell<Option<u64>>>,
}

/// The position within a field, as the CSV reader sees it.
#[derive(Clone, Copy, Debug)]
enum QuoteState {
    /// Before a field's first byte.
    Start,
    /// Within an unquoted field, or behind the closing quote.
    Plain,
    /// Within a field whose quote was opened in that line.
    Quoted(u64),
    /// Behind a quote within such a field: its end, or the first of a doubled quote.
    Quote(u64),
}

impl QuoteState {
    fn after(self, byte: u8, line: u64) -> Self {
        match (self, byte) {
            (QuoteState::Start, b'"') => QuoteState::Quoted(line),
            (QuoteState::Quoted(line), b'"') => QuoteState::Quote(line),
            (QuoteState::Quoted(line), _) | (QuoteState::Quote(line), b'"') => {
                QuoteState::Quoted(line)
            }
            (_, b',' | b'\n' | b'\r') => QuoteState::Start,
            _ => QuoteState::Plain,
        }
    }
}

impl<R: Read> LineCounter<R> {
    pub(super) fn new(from: R, starts: LineStarts, unclosed: Rc<Cell<Option<u64>>>) -> Self {
        Self {
            from,
            at: 0,
            row: 0,
            line: 1,
            line_is_empty: true,
            starts,
            quotes: QuoteState::Start,
            unclosed,
        }
    }

    /// Processes bytes outside of quotes that contain neither quotes nor \r, so that only line ends
    /// matter.
    fn plain(&mut self, bytes: &[u8], starts: &mut VecDeque<(u64, u64)>) {
        let mut begin = 0;
        for end in memchr_iter(b'\n', bytes) {
            if self.line_is_empty && begin < end {
                starts.push_back((self.at + begin as u64, self.line));
            }
            begin = end + 1;
            (self.line, self.line_is_empty) = (self.line + 1, true);
            self.row = self.at + begin as u64;
        }
        if self.line_is_empty && begin < bytes.len() {
            starts.push_back((self.at + begin as u64, self.line));
            self.line_is_empty = false;
        }
        if let Some(last) = bytes.last() {
            self.quotes = match last {
                b',' | b'\n' => QuoteState::Start,
                _ => QuoteState::Plain,
            };
        }
        self.at += bytes.len() as u64;
    }

    /// Processes any bytes.
    fn quoted(&mut self, bytes: &[u8], starts: &mut VecDeque<(u64, u64)>) {
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next() {
            self.quotes = self.quotes.after(*byte, self.line);
            match byte {
                b'\n' => (self.line, self.line_is_empty) = (self.line + 1, true),
                b'\r' => self.line_is_empty = true,
                _ if self.line_is_empty => {
                    starts.push_back((self.at, self.line));
                    self.line_is_empty = false;
                }
                _ => {}
            }
            self.at += 1;
            if let (b'\n' | b'\r', QuoteState::Start) = (byte, self.quotes) {
                self.row = self.at;
            }
            // Skip to the end of the field or line.
            let left = rest.as_slice();
            let end = match self.quotes {
                _ if self.line_is_empty => 0,
                QuoteState::Plain => bytes_before(left, b','),
                QuoteState::Quoted(_) => bytes_before(left, b'"'),
                QuoteState::Start | QuoteState::Quote(_) => 0,
            };
            rest = left[end..].iter();
            self.at += end as u64;
        }
    }
}

/// Returns the number of bytes before `stop` or the end of the line.
fn bytes_before(bytes: &[u8], stop: u8) -> usize {
    let end = |byte: &u8| *byte == stop || *byte == b'\n' || *byte == b'\r';
    bytes.iter().position(end).unwrap_or(bytes.len())
}

impl<R: Read> Read for LineCounter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        if let (0, QuoteState::Quoted(line), false) = (n, self.quotes, buffer.is_empty()) {
            self.unclosed.set(Some(line));
        }
        let zero = memchr(0, &buffer[..n]);
        let bytes = &buffer[..zero.unwrap_or(n)];
        let all = self.starts.clone();
        let mut starts = all.borrow_mut();
        match self.quotes {
            QuoteState::Quoted(_) => self.quoted(bytes, &mut starts),
            _ if memchr2(b'"', b'\r', bytes).is_some() => self.quoted(bytes, &mut starts),
            _ => self.plain(bytes, &mut starts),
        }
        if zero.is_some() {
            return Err(std::io::Error::other(format!(
                "line {}: contains a zero byte, so it is not a text table; save UTF-16 text as \
                 UTF-8",
                self.line
            )));
        }
        if self.at - self.row > MAX_ROW {
            return Err(std::io::Error::other(format!(
                "line {}: the row has more than {} MB; the file does not seem to be a table",
                self.line,
                MAX_ROW >> 20
            )));
        }
        Ok(n)
    }
}

/// Returns the line of the row that starts at that byte, or after the line ends there.
pub(super) fn line_of(start: u64, starts: &LineStarts) -> u64 {
    let mut starts = starts.borrow_mut();
    while starts.front().is_some_and(|(at, _)| *at < start) {
        starts.pop_front();
    }
    starts.front().map_or(0, |(_, line)| *line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text in pieces of that size and returns the lines' starts and the final state.
    fn counted(text: &str, piece: usize, quick: bool) -> (Vec<(u64, u64)>, [u64; 3], String) {
        let starts = LineStarts::default();
        let mut counted = LineCounter::new(text.as_bytes(), starts.clone(), Rc::default());
        if quick {
            let mut buffer = vec![0; piece];
            while counted.read(&mut buffer).unwrap() > 0 {}
        } else {
            let mut starts = starts.borrow_mut();
            for byte in text.as_bytes() {
                counted.quoted(&[*byte], &mut starts);
            }
        }
        let end = [counted.at, counted.row, counted.line];
        let state = format!("{:?} {}", counted.quotes, counted.line_is_empty);
        (starts.take().into(), end, state)
    }

    /// Every text of up to seven of the relevant bytes, whole and in pieces of three: the fast
    /// paths agree with byte-by-byte processing.
    #[test]
    fn the_quick_ways_count_as_the_slow_one() {
        let letters = ['a', ',', '"', '\n', '\r'];
        for length in 0..=7u32 {
            for number in 0..5usize.pow(length) {
                let letter = |k: u32| letters[number / 5usize.pow(k) % 5];
                let text: String = (0..length).map(letter).collect();
                let slow = counted(&text, 1, false);
                for piece in [3, 16] {
                    assert_eq!(counted(&text, piece, true), slow, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn lines_are_an_editors() {
        // Line 2 is empty, the quote of line 3 goes on in line 4.
        let (starts, [at, row, line], _) = counted("a,b\n\nc,\"d\r\ne\"\nf", 16, true);
        assert_eq!(starts, [(0, 1), (5, 3), (11, 4), (14, 5)]);
        assert_eq!([at, row, line], [15, 14, 5]);
    }
}
