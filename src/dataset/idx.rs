//! IDX files, MNIST's format: big-endian headers, then bytes; plain or gzipped (yann.lecun.com/exdb/mnist).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::{DatasetError, ImageSet, Images};
use crate::foreign;

/// File names of images and labels, for the training and the test part.
pub(super) const NAMES: [[&str; 2]; 2] =
    [["train-images-idx3-ubyte", "train-labels-idx1-ubyte"], ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]];

const IMAGES_MAGIC: u32 = 0x0803;
const LABELS_MAGIC: u32 = 0x0801;
const LARGEST_SIDE: u32 = 4096;

/// Reads both parts from a folder; `remedy` says what to do if a file is missing.
pub(super) fn read_set(folder: &Path, remedy: &'static str) -> Result<ImageSet, DatasetError> {
    let [train, test] = NAMES.map(|names| read_part(folder, names, remedy));
    Ok(ImageSet { train: train?, test: test? })
}

fn read_part(folder: &Path, names: [&'static str; 2], remedy: &'static str) -> Result<Images, DatasetError> {
    let find =
        |file| find(folder, file).ok_or_else(|| DatasetError::Absent { folder: folder.to_owned(), file, remedy });
    let (images_path, labels_path) = (find(names[0])?, find(names[1])?);
    let (mut images, count) = read_images(&images_path)?;
    images.labels = read_labels(&labels_path)?;
    if count != images.len() {
        return Err(DatasetError::Counts { images_path, images: count, labels_path, labels: images.len() });
    }
    Ok(images)
}

pub(super) fn find(folder: &Path, file: &str) -> Option<PathBuf> {
    [folder.join(file), folder.join(format!("{file}.gz"))].into_iter().find(|path| path.is_file())
}

fn read_images(path: &Path) -> Result<(Images, usize), DatasetError> {
    let (header, mut reader) = open::<4>(path, "images", IMAGES_MAGIC)?;
    let [_, count, rows, columns] = header;
    if [rows, columns].iter().any(|side| !(1..=LARGEST_SIDE).contains(side)) {
        return Err(DatasetError::Shape { path: path.to_owned(), count, rows, columns });
    }
    // No overflow: the factors are below 2³² and 2²⁴.
    let size = u64::from(count) * u64::from(rows) * u64::from(columns);
    let pixels = read_body(path, &mut reader, 16, size)?;
    let images = Images { rows: rows as usize, columns: columns as usize, pixels, labels: Vec::new() };
    Ok((images, count as usize))
}

fn read_labels(path: &Path) -> Result<Vec<u8>, DatasetError> {
    let ([_, count], mut reader) = open::<2>(path, "labels", LABELS_MAGIC)?;
    let labels = read_body(path, &mut reader, 8, u64::from(count))?;
    match labels.iter().position(|&label| label > 9) {
        Some(index) => Err(DatasetError::Label { path: path.to_owned(), index, label: labels[index] }),
        None => Ok(labels),
    }
}

/// Opens a file and reads its header of `N` numbers, the first of which must be `magic`.
fn open<const N: usize>(
    path: &Path,
    what: &'static str,
    magic: u32,
) -> Result<([u32; N], Box<dyn Read>), DatasetError> {
    let file = foreign::open(path).map_err(DatasetError::read(path))?;
    let mut reader: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(MultiGzDecoder::new(io::BufReader::new(file))),
        _ => Box::new(file),
    };
    let mut bytes = Vec::new();
    let wanted = 4 * N as u64;
    read_up_to(path, &mut reader, wanted, &mut bytes)?;
    let numbers: Vec<u32> =
        bytes.chunks_exact(4).map(|chunk| u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])).collect();
    match numbers.first() {
        Some(&found) if found != magic => {
            return Err(DatasetError::Magic { path: path.to_owned(), what, expected: magic, found });
        }
        _ => {}
    }
    let found = bytes.len() as u64;
    match numbers.try_into() {
        Ok(header) => Ok((header, reader)),
        Err(_) => Err(DatasetError::Truncated { path: path.to_owned(), expected: wanted, found }),
    }
}

/// Reads exactly `size` bytes after a header of `header` bytes, up to the end of the file.
fn read_body(path: &Path, reader: &mut dyn Read, header: u64, size: u64) -> Result<Vec<u8>, DatasetError> {
    // The header is not trusted: the vector grows with the data.
    let mut body = Vec::new();
    read_up_to(path, reader, size + 1, &mut body)?;
    let (expected, found) = (header + size, header + body.len() as u64);
    match found {
        _ if found < expected => Err(DatasetError::Truncated { path: path.to_owned(), expected, found }),
        _ if found > expected => Err(DatasetError::TooLong { path: path.to_owned(), expected }),
        _ => Ok(body),
    }
}

/// Appends at most `limit` bytes. A truncated gzip stream counts as the end of the file.
fn read_up_to(path: &Path, reader: &mut dyn Read, limit: u64, into: &mut Vec<u8>) -> Result<(), DatasetError> {
    match reader.take(limit).read_to_end(into) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(DatasetError::read(path)(error)),
        _ => Ok(()),
    }
}

/// The contents of the IDX files of images and of labels.
pub(super) fn encode(images: &Images) -> [Vec<u8>; 2] {
    let header =
        |numbers: &[usize]| numbers.iter().flat_map(|&number| (number as u32).to_be_bytes()).collect::<Vec<_>>();
    let mut pixels = header(&[IMAGES_MAGIC as usize, images.len(), images.rows, images.columns]);
    pixels.extend_from_slice(&images.pixels);
    let mut labels = header(&[LABELS_MAGIC as usize, images.len()]);
    labels.extend_from_slice(&images.labels);
    [pixels, labels]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn images(count: usize) -> Images {
        Images {
            rows: 3,
            columns: 2,
            pixels: (0..count * 6).map(|byte| byte as u8).collect(),
            labels: (0..count).map(|label| (label % 10) as u8).collect(),
        }
    }

    fn write(folder: &Path, set: &ImageSet) {
        for (names, part) in NAMES.iter().zip([&set.train, &set.test]) {
            for (name, bytes) in names.iter().zip(encode(part)) {
                fs::write(folder.join(name), bytes).unwrap();
            }
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The error from a valid set with one file replaced.
    fn error_with(name: &str, bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &ImageSet { train: images(12), test: images(4) });
        fs::remove_file(folder.path().join(name.trim_end_matches(".gz"))).unwrap();
        fs::write(folder.path().join(name), bytes).unwrap();
        let error = read_set(folder.path(), "make it").unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        error
    }

    #[test]
    fn what_is_written_is_read_plain_and_gzipped() {
        let folder = tempfile::tempdir().unwrap();
        let set = ImageSet { train: images(12), test: images(4) };
        write(folder.path(), &set);
        assert_eq!(read_set(folder.path(), "").unwrap(), set);
        for name in NAMES.as_flattened() {
            let bytes = fs::read(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(format!("{name}.gz")), gzip(&bytes)).unwrap();
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        assert_eq!(read_set(folder.path(), "").unwrap(), set);
    }

    #[test]
    fn each_defect_is_named_with_its_file() {
        let [pixels, labels] = encode(&images(12));
        let [images_name, labels_name] = NAMES[0];
        assert!(
            error_with(images_name, &labels).contains("0x00000801, but an IDX file of images starts with 0x00000803")
        );
        assert!(error_with(images_name, &pixels[..50]).contains("truncated: expected 88 bytes, found 50"));
        assert!(error_with(images_name, &pixels[..7]).contains("truncated: expected 16 bytes, found 7"));
        assert!(error_with(images_name, b"").contains("truncated: expected 16 bytes, found 0"));
        assert!(error_with(images_name, &[&pixels[..], b"x"].concat()).contains("longer than the 88 bytes"));
        assert!(error_with(labels_name, &encode(&images(11))[1]).contains("holds 12 images"));
        let mut wrong = labels;
        wrong[8 + 3] = 10;
        assert!(error_with(labels_name, &wrong).contains("label 3 of"));
        let mut huge = pixels;
        huge[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(error_with(images_name, &huge).contains("1 to 4096 pixels"));
        huge[4..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0]);
        assert!(error_with(images_name, &huge).contains("truncated"));
    }

    #[test]
    fn a_damaged_gzip_file_is_an_error() {
        let compressed = gzip(&encode(&images(12))[0]);
        let name = "train-images-idx3-ubyte.gz";
        assert!(error_with(name, &compressed[..compressed.len() / 2]).contains("truncated"));
        assert!(error_with(name, b"not a gzip stream").contains("failed"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let start: &[u8] = if magic { &[0, 0, 8, 3] } else { &[] };
            fs::write(&path, [start, &bytes].concat()).unwrap();
            if let Ok((images, count)) = read_images(&path) {
                prop_assert_eq!(images.pixels.len(), count * images.rows * images.columns);
            }
        }
    }
}
