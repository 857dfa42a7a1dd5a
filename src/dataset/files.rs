//! Folders of image files, one sub-folder per class as in torchvision's ImageFolder: listing and decoding.

use std::fs;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use image::{ImageFormat, ImageReader, Limits};

use super::DatasetError;
use crate::foreign;

/// Most classes of a set: as many as labels can count.
const MOST_CLASSES: usize = 1 << 16;
/// Greatest width and height that are decoded, in pixels.
const LARGEST_SIDE: u32 = 16_384;
/// Longest file that is decoded: larger than uncompressed images of most cameras.
const MOST_BYTES: u64 = 512 << 20;

/// The files of one part of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFiles {
    /// Paths of the files.
    pub paths: Vec<PathBuf>,
    /// Class of each file.
    pub labels: Vec<u16>,
}

impl ImageFiles {
    /// Number of files.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Keeps at most the first `count` files.
    pub fn truncate(&mut self, count: usize) {
        self.paths.truncate(count);
        self.labels.truncate(count);
    }

    /// Removes files by index.
    pub fn remove(&mut self, unwanted: &[usize]) {
        let keep = |index: &usize| !unwanted.contains(index);
        let indexes: Vec<usize> = (0..self.len()).filter(keep).collect();
        self.paths = indexes.iter().map(|&index| self.paths[index].clone()).collect();
        self.labels = indexes.iter().map(|&index| self.labels[index]).collect();
    }
}

/// The two parts of a folder of image files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// Number of classes.
    pub classes: usize,
    /// Training images.
    pub train: ImageFiles,
    /// Test images.
    pub test: ImageFiles,
}

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Height, in pixels.
    pub rows: usize,
    /// Width, in pixels.
    pub columns: usize,
    /// `[rows, columns, 3]` bytes: red, green, blue.
    pub pixels: Vec<u8>,
}

/// Lists the PNG and JPEG files in `folder/train/<class>/*` and `folder/test/<class>/*`, by file extension. Classes are
/// numbered in the order of their names. Files of the classes alternate, so that any prefix of the list is balanced.
///
/// # Errors
/// When a part is missing, has no classes or too many, or the parts differ in their classes. Contents are not checked.
pub fn list_files(folder: &Path) -> Result<FileSet, DatasetError> {
    let (train_folder, test_folder) = (folder.join("train"), folder.join("test"));
    let (train_classes, train) = list_part(&train_folder)?;
    let (test_classes, test) = list_part(&test_folder)?;
    let wrong = |folder, found, expected| Err(DatasetError::Classes { folder, found, expected });
    if train_classes.len() > MOST_CLASSES {
        let found = train_classes.len();
        return Err(DatasetError::TooManyClasses { folder: train_folder, found, most: MOST_CLASSES });
    }
    if test_classes != train_classes {
        let expected =
            format!("the classes of {} are {train_classes:?}: both must be the same", train_folder.display());
        return wrong(test_folder, test_classes, expected);
    }
    Ok(FileSet { classes: train_classes.len(), train, test })
}

/// The number of classes of a folder of image files, by the folders in its training part. Files are not looked at.
///
/// # Errors
/// When the training part is missing or holds no folders.
pub fn class_count(folder: &Path) -> Result<usize, DatasetError> {
    class_folders(&folder.join("train")).map(|classes| classes.len())
}

fn class_folders(part: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let classes = sorted(part, Path::is_dir)?;
    if classes.is_empty() { Err(DatasetError::NoClasses(part.to_owned())) } else { Ok(classes) }
}

fn list_part(folder: &Path) -> Result<(Vec<String>, ImageFiles), DatasetError> {
    let classes = class_folders(folder)?;
    let lists = classes.iter().map(|class| sorted(class, is_image)).collect::<Result<Vec<_>, _>>()?;
    let mut files = ImageFiles::default();
    for turn in 0..lists.iter().map(Vec::len).max().unwrap_or(0) {
        for (label, list) in lists.iter().enumerate() {
            if let Some(path) = list.get(turn) {
                files.paths.push(path.clone());
                files.labels.push(label as u16);
            }
        }
    }
    let name = |class: &PathBuf| class.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((classes.iter().map(name).collect(), files))
}

/// Entries of a folder that `wanted` accepts, sorted by name.
fn sorted(folder: &Path, wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>, DatasetError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(DatasetError::read(folder))? {
        let path = entry.map_err(DatasetError::read(folder))?.path();
        if wanted(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    ["png", "jpg", "jpeg"].iter().any(|known| end.eq_ignore_ascii_case(known))
}

/// Reads the bytes of an image's file.
///
/// # Errors
/// It cannot be read, is not a regular file or is too long for an image.
pub fn read_image(path: &Path) -> io::Result<Vec<u8>> {
    foreign::read(path, MOST_BYTES)
}

/// Reads and decodes a file.
///
/// # Errors
/// [`DatasetError::Read`] if it cannot be read or is not a regular file, [`DatasetError::Corrupt`] if it is not a valid PNG or JPEG, or a
/// link that leads to no file.
pub fn decode(path: &Path) -> Result<Picture, DatasetError> {
    let bytes = read_image(path).map_err(|error| match leads_nowhere(path, &error) {
        true => DatasetError::Corrupt { path: path.to_owned(), reason: format!("it is a link to no file ({error})") },
        false => DatasetError::read(path)(error),
    })?;
    let corrupt = |reason: String| DatasetError::Corrupt { path: path.to_owned(), reason };
    let mut reader = ImageReader::new(Cursor::new(&bytes));
    let mut limits = Limits::default();
    limits.max_image_width = Some(LARGEST_SIDE);
    limits.max_image_height = Some(LARGEST_SIDE);
    reader.limits(limits);
    let reader = reader.with_guessed_format().map_err(|error| corrupt(error.to_string()))?;
    let is_jpeg = reader.format() == Some(ImageFormat::Jpeg);
    let image = reader.decode().map_err(|error| corrupt(error.to_string()))?.into_rgb8();
    // Decoders accept an incomplete file and leave the rest of the picture grey.
    if is_jpeg && !ends(&bytes) {
        return Err(corrupt("it is cut off: the end of the picture is missing".to_owned()));
    }
    let (columns, rows) = (image.width() as usize, image.height() as usize);
    Ok(Picture { rows, columns, pixels: image.into_raw() })
}

/// Whether a file cannot be read because it is a link to a file that does not exist, or one of several that form a circle.
fn leads_nowhere(path: &Path, error: &io::Error) -> bool {
    let is_circle = rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP);
    path.is_symlink() && (is_circle || error.kind() == io::ErrorKind::NotFound)
}

/// Whether a JPEG contains its end marker (ITU-T T.81, annex B). Bytes after that do not belong to the picture.
fn ends(jpeg: &[u8]) -> bool {
    const STUFFED: u8 = 0x00;
    const ALONE: std::ops::RangeInclusive<u8> = 0xD0..=0xD8;
    const END: u8 = 0xD9;
    const FILL: u8 = 0xFF;
    let mut at = 0;
    loop {
        let Some(found) = jpeg.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == FILL)) else {
            return false;
        };
        at += found + 1;
        match jpeg.get(at) {
            None => return false,
            Some(&END) => return true,
            Some(&FILL) => {}
            Some(&marker) if marker == STUFFED || ALONE.contains(&marker) => at += 1,
            // A segment with its length, such as a thumbnail, which may contain an end marker of its own.
            Some(_) => match jpeg.get(at + 1..at + 3) {
                Some(&[high, low]) => at += 1 + usize::from(u16::from_be_bytes([high, low])),
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn touch(folder: &Path, names: &[&str]) {
        for name in names {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "not an image").unwrap();
        }
    }

    #[test]
    fn classes_are_taken_in_turn_and_other_files_are_not_images() {
        let folder = tempfile::tempdir().unwrap();
        touch(
            folder.path(),
            &["train/b/2.png", "train/b/1.JPG", "train/a/x.jpeg", "train/a/notes.txt", "train/read.me"],
        );
        touch(folder.path(), &["test/a/1.png", "test/b/1.png"]);
        let set = list_files(folder.path()).unwrap();
        let names: Vec<_> = set.train.paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!((names, set.train.labels), (vec!["x.jpeg", "1.JPG", "2.png"], vec![0, 1, 1]));
        assert_eq!(set.test.labels, [0, 1]);
    }

    #[test]
    fn invalid_folders_are_named_with_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = list_files(folder.path()).unwrap_err().to_string();
        assert!(error.contains("train"), "{error}");
        touch(folder.path(), &["train/a/1.png", "test/b/1.png"]);
        let error = list_files(folder.path()).unwrap_err().to_string();
        assert!(error.contains(r#"test has the classes ["b"]; the classes of"#), "{error}");
        fs::create_dir_all(folder.path().join("train/b")).unwrap();
        fs::remove_dir_all(folder.path().join("test/b")).unwrap();
        let error = list_files(folder.path()).unwrap_err().to_string();
        assert!(error.contains("test contains no folders of images"), "{error}");
    }

    #[test]
    fn a_set_has_as_many_classes_as_folders_and_labels_count_beyond_a_byte() {
        let folder = tempfile::tempdir().unwrap();
        for class in 0..300 {
            touch(folder.path(), &[&format!("train/{class:03}/1.png"), &format!("test/{class:03}/1.png")]);
        }
        let set = list_files(folder.path()).unwrap();
        assert_eq!((set.classes, class_count(folder.path()).unwrap()), (300, 300));
        assert_eq!(set.test.labels, (0..300).collect::<Vec<u16>>());
    }

    #[test]
    fn a_link_to_no_file_counts_as_a_file_that_cannot_be_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let [circle, missing, gone] = ["circle.png", "missing.png", "gone.png"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        std::os::unix::fs::symlink(&gone, &missing).unwrap();
        for path in [&circle, &missing] {
            let error = decode(path).unwrap_err();
            assert!(matches!(&error, DatasetError::Corrupt { path: found, .. } if found == path), "{error}");
            assert!(error.to_string().contains("it is a link to no file"), "{error}");
        }
        assert!(matches!(decode(&gone), Err(DatasetError::Read { .. })), "it is no link");
    }

    #[test]
    fn a_file_that_is_not_an_image_is_named() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["a.png"]);
        let path = folder.path().join("a.png");
        let error = decode(&path).unwrap_err();
        assert!(matches!(&error, DatasetError::Corrupt { path: found, .. } if *found == path), "{error}");
        let error = decode(&folder.path().join("absent.png")).unwrap_err();
        assert!(matches!(error, DatasetError::Read { .. }), "{error}");
    }

    #[test]
    fn a_pipe_or_an_endless_device_among_images_is_refused_at_once_and_links_to_images_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe.png")).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", at("zeros.png")).unwrap();
        for name in ["pipe.png", "zeros.png"] {
            let error = decode(&at(name)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("not a regular file"), "{error}");
        }
        fs::File::create(at("long.png")).unwrap().set_len(1 << 40).unwrap();
        assert!(decode(&at("long.png")).unwrap_err().to_string().contains("longer than"));
        image::RgbImage::new(2, 1).save(at("real.png")).unwrap();
        std::os::unix::fs::symlink(at("real.png"), at("link.png")).unwrap();
        assert_eq!(decode(&at("link.png")).unwrap().columns, 2);
    }

    #[test]
    fn a_jpeg_that_is_cut_off_is_named_and_bytes_behind_its_end_do_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.jpg");
        let picture =
            image::RgbImage::from_fn(64, 64, |x, y| image::Rgb([(x * 4) as u8, (y * 4) as u8, (x * y) as u8]));
        picture.save(&path).unwrap();
        let mut whole = fs::read(&path).unwrap();
        // A thumbnail with an end of its own, as cameras write it.
        whole.splice(2..2, [0xFF, 0xE1, 0, 6, 0xFF, 0xD8, 0xFF, 0xD9]);
        for (bytes, reads) in [(whole.len(), true), (whole.len() - 2, false), (whole.len() * 3 / 4, false)] {
            fs::write(&path, &whole[..bytes]).unwrap();
            match decode(&path) {
                Ok(picture) => assert!(reads && picture.columns == 64, "{bytes}"),
                Err(error) => assert!(!reads && error.to_string().contains("picture.jpg"), "{bytes}: {error}"),
            }
        }
        whole.extend([0; 100]);
        fs::write(&path, &whole).unwrap();
        assert_eq!(decode(&path).unwrap().rows, 64);
    }

    #[test]
    fn some_files_can_be_left_out() {
        let mut files = ImageFiles { paths: (0..4).map(|n| n.to_string().into()).collect(), labels: vec![0, 1, 2, 3] };
        files.remove(&[1, 3]);
        assert_eq!((files.paths, files.labels), (vec!["0".into(), "2".into()], vec![0, 2]));
    }
}
