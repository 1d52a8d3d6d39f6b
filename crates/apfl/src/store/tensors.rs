//! Models as `.safetensors` files: tensors named by layer, or `<client>/<layer>`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Map, json};

use super::atomic::AtomicFile;
use crate::error::{Error, Result, at};
use crate::model::Layout;
use crate::params::Params;

/// Writes one model.
pub fn write_one(path: &Path, layout: &Layout, params: &[f32]) -> Result<()> {
    let mut file = ModelsFile::create(path, layout, &[String::new()])?;
    file.push(params)?;
    file.commit()
}

/// Many models of one layout, written one after the other without holding them all.
pub struct ModelsFile {
    file: AtomicFile,
    len: usize,
    missing: usize,
}

impl ModelsFile {
    /// Starts a file for the models of those clients; an empty name has no prefix.
    pub fn create(path: &Path, layout: &Layout, clients: &[String]) -> Result<Self> {
        let mut file = AtomicFile::create(path)?;
        let header = header(layout, clients);
        file.write(&(header.len() as u64).to_le_bytes())?;
        file.write(&header)?;
        Ok(Self {
            file,
            len: layout.len(),
            missing: clients.len(),
        })
    }

    /// Writes the next client's model.
    pub fn push(&mut self, params: &[f32]) -> Result<()> {
        assert_eq!(params.len(), self.len);
        assert!(self.missing > 0, "no more models than clients");
        self.missing -= 1;
        let mut bytes = Vec::with_capacity(4 * params.len());
        params
            .iter()
            .for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        self.file.write(&bytes)
    }

    /// Ends the file; every client's model must have been pushed.
    pub fn commit(self) -> Result<()> {
        assert_eq!(self.missing, 0, "a model for every client");
        self.file.commit()
    }
}

/// The format's header: a JSON object of types, shapes and places, padded to 8 bytes.
fn header(layout: &Layout, clients: &[String]) -> Vec<u8> {
    let mut tensors = Map::new();
    let mut start = 0;
    for client in clients {
        for tensor in &layout.tensors {
            let end = start + 4 * tensor.len();
            let entry = json!({
                "dtype": "F32",
                "shape": tensor.shape,
                "data_offsets": [start, end],
            });
            tensors.insert(tensor_name(client, &tensor.name), entry);
            start = end;
        }
    }
    let mut text = serde_json::to_vec(&tensors).expect("plain JSON");
    text.resize(text.len().next_multiple_of(8), b' ');
    text
}

fn tensor_name(client: &str, tensor: &str) -> String {
    match client {
        "" => tensor.into(),
        client => format!("{client}/{tensor}"),
    }
}

/// Reads the model of one client (or the only one, with an empty `client`), and no more
/// of the file than that.
pub fn read_one(path: &Path, layout: &Layout, client: &str) -> Result<Params> {
    let wrong = |message: String| Error::Data(format!("{}: {message}", path.display()));
    let io = || at(path, "read");
    let mut file = File::open(path).map_err(io())?;
    let size = file.metadata().map_err(io())?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| wrong(format!("has {size} bytes, too few for a .safetensors file")))?;
    let header_len = u64::from_le_bytes(length);
    if header_len > size.saturating_sub(8) {
        return Err(wrong(format!(
            "is not a whole .safetensors file: a header of {header_len} bytes in {size}"
        )));
    }
    let mut head = Vec::new();
    (&mut file)
        .take(header_len)
        .read_to_end(&mut head)
        .map_err(io())?;
    let metadata: Metadata = serde_json::from_slice(&head)
        .map_err(|e| wrong(format!("is not a whole .safetensors file: {e}")))?;
    let data = 8 + header_len;
    let mut params = Vec::with_capacity(layout.len());
    for tensor in &layout.tensors {
        let name = tensor_name(client, &tensor.name);
        let info = metadata.info(&name).ok_or_else(|| {
            let mut names: Vec<String> = metadata.tensors().into_keys().collect();
            names.sort();
            names.truncate(8);
            wrong(format!(
                "has no tensor '{name}'; it has {} …",
                names.join(", ")
            ))
        })?;
        if info.dtype != Dtype::F32 || info.shape != tensor.shape {
            return Err(wrong(format!(
                "tensor '{name}' is {:?} of shape {:?}, the model needs F32 of shape {:?}",
                info.dtype, info.shape, tensor.shape
            )));
        }
        let start = data + info.data_offsets.0 as u64;
        if start + 4 * tensor.len() as u64 > size {
            return Err(wrong(format!("is cut off within tensor '{name}'")));
        }
        let mut bytes = vec![0; 4 * tensor.len()];
        file.seek(SeekFrom::Start(start)).map_err(io())?;
        file.read_exact(&mut bytes).map_err(io())?;
        let number = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes"));
        params.extend(bytes.chunks_exact(4).map(number));
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_come_back_by_client() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let mut layout = Layout::default();
        layout.push("a", &[2, 1], 2);
        layout.push("b", &[1], 2);
        let names = vec!["x".to_string(), "y/z".to_string()];
        let mut file = ModelsFile::create(&path, &layout, &names).unwrap();
        file.push(&[1.0, 2.0, 3.0]).unwrap();
        file.push(&[4.0, 5.0, 6.0]).unwrap();
        file.commit().unwrap();
        assert_eq!(read_one(&path, &layout, "y/z").unwrap(), [4.0, 5.0, 6.0]);
        let bytes = std::fs::read(&path).unwrap();
        assert!(safetensors::SafeTensors::deserialize(&bytes).is_ok());
        let error = read_one(&path, &layout, "q").unwrap_err().to_string();
        assert!(error.contains("has no tensor 'q/a'"), "{error}");

        write_one(&path, &layout, &[7.0, 8.0, 9.0]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(read_one(&path, &layout, "").unwrap(), [7.0, 8.0, 9.0]);
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read_one(&path, &layout, "").is_err(), "cut at {cut}");
        }
    }
}
