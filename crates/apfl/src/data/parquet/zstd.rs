//! Reads pages compressed by Zstandard with a decoder in Rust. The `parquet` crate's own support
//! needs a library in C, which takes longer to build than the rest of this crate.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The format stores page sizes in 31 bits.
const MAX_PAGE: u64 = i32::MAX as u64;

/// Reads and decompresses the pages of one column in one row group.
pub struct ZstdPages {
    pages: SerializedPageReader<File>,
    decoder: FrameDecoder,
}

impl ZstdPages {
    pub fn new(file: &File, column: &ColumnChunkMetaData, rows: usize) -> Result<Self> {
        let uncompressed = column
            .clone()
            .into_builder()
            .set_compression(Compression::UNCOMPRESSED)
            .build()?;
        let file = Arc::new(file.try_clone()?);
        Ok(Self {
            pages: SerializedPageReader::new(file, &uncompressed, rows, None)?,
            decoder: FrameDecoder::new(),
        })
    }

    /// Decompresses a page, of which the first `plain` bytes are not compressed.
    fn decompressed(&mut self, bytes: &[u8], plain: usize) -> Result<Vec<u8>> {
        let wrong = |e: &dyn std::fmt::Display| ParquetError::General(format!("zstd: {e}"));
        let (plain, mut frames) = bytes
            .split_at_checked(plain)
            .ok_or_else(|| wrong(&"the page is truncated"))?;
        let mut out = plain.to_vec();
        while !frames.is_empty() {
            let mut frame = StreamingDecoder::new_with_decoder(&mut frames, &mut self.decoder)
                .map_err(|e| wrong(&e))?;
            let room = MAX_PAGE - out.len() as u64;
            let read = (&mut frame).take(room + 1).read_to_end(&mut out);
            if read.map_err(|e| wrong(&e))? as u64 > room {
                return Err(wrong(&"a page is larger than the format allows"));
            }
            let expected = self.decoder.get_checksum_from_data();
            if expected.is_some() && expected != self.decoder.get_calculated_checksum() {
                return Err(wrong(&"a checksum is wrong"));
            }
        }
        Ok(out)
    }
}

impl PageReader for ZstdPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let mut page = self.pages.get_next_page()?;
        match &mut page {
            Some(Page::DictionaryPage { buf, .. } | Page::DataPage { buf, .. }) => {
                *buf = self.decompressed(buf, 0)?.into();
            }
            Some(Page::DataPageV2 {
                buf,
                is_compressed: true,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            }) => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                *buf = self.decompressed(buf, levels as usize)?.into();
            }
            Some(Page::DataPageV2 { .. }) | None => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for ZstdPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
