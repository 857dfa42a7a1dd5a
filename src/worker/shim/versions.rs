//! Versions of the CUDA libraries that are loaded with libtorch, reported by the libraries themselves.

use std::ffi::c_int;

use libloading::os::unix::{Library, Symbol};
use multicard::plan::Versions;
use multicard::protocol::build;

/// The versions of this build, and of the libraries that this process has loaded.
pub fn versions() -> Versions {
    let process = Library::this();
    let written = |name: &[u8]| {
        let mut version: c_int = 0;
        // SAFETY: both functions with this signature write one int and return 0 on success.
        let call: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> = unsafe { process.get(name) }.ok()?;
        // SAFETY: `version` is a valid variable for it.
        (unsafe { call(&raw mut version) } == 0).then_some(version)
    };
    let cudnn = || {
        // SAFETY: `size_t cudnnGetVersion(void)`.
        let call: Symbol<unsafe extern "C" fn() -> usize> = unsafe { process.get(b"cudnnGetVersion\0") }.ok()?;
        // SAFETY: it takes no arguments and only returns a constant.
        i32::try_from(unsafe { call() }).ok()
    };
    Versions {
        build: build().map(str::to_owned),
        cuda_runtime: written(b"cudaRuntimeGetVersion\0").map(cuda),
        cudnn: cudnn().map(cudnn_text),
        nccl: written(b"ncclGetVersion\0").map(nccl),
    }
}

/// `13.0` for 13000.
fn cuda(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// `9.15.1` for 91501, `8.9.7` for 8907.
fn cudnn_text(version: i32) -> String {
    let major = if version >= 90_000 { 10_000 } else { 1000 };
    format!("{}.{}.{}", version / major, version % major / 100, version % 100)
}

/// `2.28.9` for 22809.
fn nccl(version: c_int) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_as_their_makers_write_them() {
        assert_eq!((cuda(13_000), cuda(12_080)), ("13.0".to_owned(), "12.8".to_owned()));
        assert_eq!((cudnn_text(91_501), cudnn_text(8907)), ("9.15.1".to_owned(), "8.9.7".to_owned()));
        assert_eq!((nccl(22_809), nccl(21_805)), ("2.28.9".to_owned(), "2.18.5".to_owned()));
    }
}
