//! The lines of a CSV file, counted as an editor does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;

use memchr::{memchr, memchr_iter, memchr2};

/// Where lines with something in them start, and their numbers, as far as the file was
/// read and a row was not.
pub(super) type Starts = Rc<RefCell<VecDeque<(u64, u64)>>>;

/// The longest row, in bytes: what has none so long ago that it would fill the memory is no
/// table (a gzip of zeros, a quote that is closed a gigabyte later).
const LONGEST_ROW: u64 = 32 << 20;

/// A file whose lines are counted as an editor does: the CSV reader's own count stays
/// behind where lines end in \r\n, and at empty lines.
pub(super) struct Counted<R> {
    from: R,
    at: u64,
    /// Where this row began.
    row: u64,
    line: u64,
    /// Nothing stood in this line yet.
    fresh: bool,
    starts: Starts,
    quotes: Quotes,
    unclosed: Rc<Cell<Option<u64>>>,
}

/// Where in a field the file is, as the CSV reader sees it.
#[derive(Clone, Copy, Debug)]
enum Quotes {
    /// Before a field's first byte.
    Start,
    /// Within a field that is not quoted, or behind its closing quote.
    Plain,
    /// Within a field whose quote was opened in that line.
    Quoted(u64),
    /// Behind a quote within such a field: its end, or the first of two that mean one.
    Quote(u64),
}

impl Quotes {
    fn after(self, byte: u8, line: u64) -> Self {
        match (self, byte) {
            (Quotes::Start, b'"') => Quotes::Quoted(line),
            (Quotes::Quoted(line), b'"') => Quotes::Quote(line),
            (Quotes::Quoted(line), _) | (Quotes::Quote(line), b'"') => Quotes::Quoted(line),
            (_, b',' | b'\n' | b'\r') => Quotes::Start,
            _ => Quotes::Plain,
        }
    }
}

impl<R: Read> Counted<R> {
    pub(super) fn new(from: R, starts: Starts, unclosed: Rc<Cell<Option<u64>>>) -> Self {
        Self {
            from,
            at: 0,
            row: 0,
            line: 1,
            fresh: true,
            starts,
            quotes: Quotes::Start,
            unclosed,
        }
    }

    /// Goes on by bytes that have no quote and no \r, outside of quotes: nothing but the ends of
    /// lines need be looked at.
    fn plain(&mut self, bytes: &[u8], starts: &mut VecDeque<(u64, u64)>) {
        let mut begin = 0;
        for end in memchr_iter(b'\n', bytes) {
            if self.fresh && begin < end {
                starts.push_back((self.at + begin as u64, self.line));
            }
            begin = end + 1;
            (self.line, self.fresh) = (self.line + 1, true);
            self.row = self.at + begin as u64;
        }
        if self.fresh && begin < bytes.len() {
            starts.push_back((self.at + begin as u64, self.line));
            self.fresh = false;
        }
        if let Some(last) = bytes.last() {
            self.quotes = match last {
                b',' | b'\n' => Quotes::Start,
                _ => Quotes::Plain,
            };
        }
        self.at += bytes.len() as u64;
    }

    /// The same by any bytes.
    fn quoted(&mut self, bytes: &[u8], starts: &mut VecDeque<(u64, u64)>) {
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next() {
            self.quotes = self.quotes.after(*byte, self.line);
            match byte {
                b'\n' => (self.line, self.fresh) = (self.line + 1, true),
                b'\r' => self.fresh = true,
                _ if self.fresh => {
                    starts.push_back((self.at, self.line));
                    self.fresh = false;
                }
                _ => {}
            }
            self.at += 1;
            if let (b'\n' | b'\r', Quotes::Start) = (byte, self.quotes) {
                self.row = self.at;
            }
            // Within a field nothing happens before its end, or that of the line.
            let left = rest.as_slice();
            let end = match self.quotes {
                _ if self.fresh => 0,
                Quotes::Plain => ahead(left, b','),
                Quotes::Quoted(_) => ahead(left, b'"'),
                Quotes::Start | Quotes::Quote(_) => 0,
            };
            rest = left[end..].iter();
            self.at += end as u64;
        }
    }
}

/// How many bytes come before that one, or the end of a line.
fn ahead(bytes: &[u8], stop: u8) -> usize {
    let end = |byte: &u8| *byte == stop || *byte == b'\n' || *byte == b'\r';
    bytes.iter().position(end).unwrap_or(bytes.len())
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        if let (0, Quotes::Quoted(line), false) = (n, self.quotes, buffer.is_empty()) {
            self.unclosed.set(Some(line));
        }
        let zero = memchr(0, &buffer[..n]);
        let bytes = &buffer[..zero.unwrap_or(n)];
        let all = self.starts.clone();
        let mut starts = all.borrow_mut();
        match self.quotes {
            Quotes::Quoted(_) => self.quoted(bytes, &mut starts),
            _ if memchr2(b'"', b'\r', bytes).is_some() => self.quoted(bytes, &mut starts),
            _ => self.plain(bytes, &mut starts),
        }
        if zero.is_some() {
            return Err(std::io::Error::other(format!(
                "line {}: a byte 0, which no text has; is this a table? (UTF-16 text: save it as \
                 UTF-8)",
                self.line
            )));
        }
        if self.at - self.row > LONGEST_ROW {
            return Err(std::io::Error::other(format!(
                "line {}: the row that ends there or later has more than {} MB; is this a table?",
                self.line,
                LONGEST_ROW >> 20
            )));
        }
        Ok(n)
    }
}

/// The line of the row that starts at that byte or, where line ends stand there, after.
pub(super) fn line_of(start: u64, starts: &Starts) -> u64 {
    let mut starts = starts.borrow_mut();
    while starts.front().is_some_and(|(at, _)| *at < start) {
        starts.pop_front();
    }
    starts.front().map_or(0, |(_, line)| *line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read of a text in pieces of that size: the lines' starts, and where it ended.
    fn counted(text: &str, piece: usize, quick: bool) -> (Vec<(u64, u64)>, [u64; 3], String) {
        let starts = Starts::default();
        let mut counted = Counted::new(text.as_bytes(), starts.clone(), Rc::default());
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
        let state = format!("{:?} {}", counted.quotes, counted.fresh);
        (starts.take().into(), end, state)
    }

    /// Every text of up to seven bytes of those that matter, whole and in pieces of three,
    /// byte by byte and as it is read.
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
