//! The kernel's memory policy of the calling thread, which the processes and threads that it starts inherit.

use std::ffi::c_int;

use multicard::protocol::{MemoryPolicy, ranges_text};
use tch::TchError;

use super::host::{check, done};

/// A bit for each of 1024 nodes.
type Mask = [u64; 16];

unsafe extern "C" {
    fn mc_set_memory_policy(mode: c_int, mask: *const u64) -> c_int;
    fn mc_memory_policy(mask: *mut u64) -> c_int;
}

/// The modes of set_mempolicy(2) and their names.
const MODES: [(c_int, &str); 6] =
    [(0, "default"), (1, "preferred"), (BIND, "bind"), (INTERLEAVE, "interleave"), (4, "local"), (5, "preferred many")];
const BIND: c_int = 2;
const INTERLEAVE: c_int = 3;

/// A thread's memory policy in the kernel's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPolicy {
    mode: c_int,
    mask: Mask,
}

impl ThreadPolicy {
    /// The policy of the calling thread.
    pub fn current() -> Result<Self, TchError> {
        let mut mask = [0; 16];
        // SAFETY: the shim writes 1024 bits.
        let mode = check(unsafe { mc_memory_policy(mask.as_mut_ptr()) })?;
        Ok(Self { mode, mask })
    }

    /// Sets it as the calling thread's policy.
    pub fn set(&self) -> Result<(), TchError> {
        // SAFETY: the shim reads 1024 bits.
        done(unsafe { mc_set_memory_policy(self.mode, self.mask.as_ptr()) })
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> Vec<u32> {
        (0..1024).filter(|node| self.mask[*node as usize / 64] >> (node % 64) & 1 == 1).collect()
    }
}

impl From<&MemoryPolicy> for ThreadPolicy {
    fn from(policy: &MemoryPolicy) -> Self {
        let (mode, nodes) = match policy {
            MemoryPolicy::Bind { nodes } => (BIND, nodes),
            MemoryPolicy::Interleave { nodes } => (INTERLEAVE, nodes),
        };
        let mut mask = [0; 16];
        // No machine has a node beyond the mask. Without one, the kernel would refuse an empty mask.
        for node in nodes.iter().filter(|node| **node < 1024) {
            mask[*node as usize / 64] |= 1 << (node % 64);
        }
        Self { mode, mask }
    }
}

/// The kernel's name for the mode, followed by the nodes if it names some: `bind:0`.
impl std::fmt::Display for ThreadPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = MODES.iter().find(|(mode, _)| *mode == self.mode);
        match known {
            Some((_, name)) => write!(f, "{name}")?,
            None => write!(f, "mode {}", self.mode)?,
        }
        let nodes = self.nodes();
        if nodes.is_empty() { Ok(()) } else { write!(f, ":{}", ranges_text(&nodes)) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Does it on a thread of its own: the policy is the thread's.
    fn apart<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::Builder::new().name("policy".into()).spawn(act).unwrap().join().unwrap()
    }

    #[test]
    fn a_policy_is_read_back_as_it_was_set_and_threads_inherit_it() {
        apart(|| {
            let before = ThreadPolicy::current().unwrap();
            let wanted = ThreadPolicy::from(&MemoryPolicy::Bind { nodes: vec![0] });
            wanted.set().unwrap();
            assert_eq!(ThreadPolicy::current().unwrap(), wanted);
            let inherited = apart(|| ThreadPolicy::current().unwrap());
            assert_eq!((inherited.to_string().as_str(), inherited.nodes()), ("bind:0", vec![0]));
            before.set().unwrap();
            assert_eq!(ThreadPolicy::current().unwrap(), before);
        });
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        apart(|| {
            let error = ThreadPolicy::from(&MemoryPolicy::Bind { nodes: vec![1023] }).set().unwrap_err();
            assert!(error.to_string().contains("set_mempolicy"), "{error}");
        });
    }
}
