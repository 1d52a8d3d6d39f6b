//! NumPy's .npz: a ZIP archive, here without compression, of .npy files.
//!
//! ZIP: PKWARE's APPNOTE.TXT 4.3.7, 4.3.12 and 4.3.16; .npy: numpy.lib.format, version 1.0.

use flate2::Crc;

/// Returns the archive of f32 arrays, each with its name, shape and row-major values, and of
/// further files.
///
/// # Errors
///
/// Fails if the archive exceeds the format's limits without ZIP64.
pub fn archive<'a>(
    arrays: impl IntoIterator<Item = (&'a str, &'a [usize], &'a [f32])>,
    files: &[(&str, &[u8])],
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    let mut entries = 0u16;
    let arrays = (arrays.into_iter())
        .map(|(name, shape, values)| (format!("{name}.npy"), npy(shape, values)));
    let files = files
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    for (name, content) in arrays.chain(files) {
        let start = small(out.len())?;
        // The fields of both headers: version 2.0, UTF-8 names, stored, 1 January 1980.
        let mut fields = Vec::new();
        for field in [20u16, 1 << 11, 0, 0, 1 << 5 | 1] {
            fields.extend(field.to_le_bytes());
        }
        let mut crc = Crc::new();
        crc.update(&content);
        let size = small(content.len())?;
        for field in [crc.sum(), size, size] {
            fields.extend(field.to_le_bytes());
        }
        let length = u16::try_from(name.len()).map_err(|_| "a tensor's name is too long")?;
        fields.extend(length.to_le_bytes());
        fields.extend([0; 2]); // no extra field

        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(name.as_bytes());
        out.extend(content);

        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0; 10]); // no comment, first disk, no attributes
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
        entries = entries.checked_add(1).ok_or("there are too many tensors")?;
    }
    let (start, length) = (small(out.len())?, small(directory.len())?);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([entries.to_le_bytes(), entries.to_le_bytes()].concat());
    out.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    out.extend([0; 2]); // no comment
    Ok(out)
}

fn small(size: usize) -> Result<u32, String> {
    u32::try_from(size).map_err(|_| "an .npz holds at most 4 GiB; write .safetensors".into())
}

fn npy(shape: &[usize], values: &[f32]) -> Vec<u8> {
    let sides: Vec<String> = shape.iter().map(|side| format!("{side},")).collect();
    let mut header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}",
        sides.join(" ")
    );
    // Magic, version and length take 10 bytes; the values begin at a multiple of 64.
    let padded = (10 + header.len() + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', padded - 11 - header.len()));
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    let length = u16::try_from(header.len()).expect("a shape has a few numbers");
    out.extend(length.to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of an archive of one array [1, −2], as the two formats prescribe.
    #[test]
    fn one_array_byte_by_byte() {
        let bytes = archive([("b", &[2][..], &[1.0, -2.0][..])], &[]).unwrap();
        let content = [
            b"\x93NUMPY\x01\x00\x76\x00".as_slice(),
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
            &[b' '; 60],
            b"\n",
            &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0],
        ]
        .concat();
        assert_eq!(content.len(), 128 + 8);
        let mut crc = Crc::new();
        crc.update(&content);
        let fields = [
            b"\x14\0\0\x08\0\0\0\0\x21\0".as_slice(),
            &crc.sum().to_le_bytes(),
            b"\x88\0\0\0\x88\0\0\0\x05\0\0\0",
        ]
        .concat();
        let expected = [
            b"PK\x03\x04".as_slice(),
            &fields,
            b"b.npy",
            &content,
            b"PK\x01\x02\x14\0",
            &fields,
            &[0; 14],
            b"b.npy",
            b"PK\x05\x06\0\0\0\0\x01\0\x01\0",
            // The directory: 46 + 5 bytes after 30 + 5 + 136.
            &[51, 0, 0, 0, 171, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn shapes_are_written_as_tuples() {
        let header = |shape: &[usize]| String::from_utf8_lossy(&npy(shape, &[])).into_owned();
        assert!(header(&[]).contains("'shape': (), }"));
        assert!(header(&[3]).contains("'shape': (3,), }"));
        assert!(header(&[3, 4]).contains("'shape': (3, 4,), }"));
        assert_eq!(npy(&[3, 4], &[]).len() % 64, 0);
    }
}
