//! One process with a module and a thread per device, as in DataParallel. Each pass replicates the first module, scatters the
//! input, computes on all devices at once and gathers the outputs. The backward pass runs through all of it and ends in the first
//! module.
//!
//! Autograd's engine runs the backward passes of GPUs concurrently, each in its own thread, and the backward passes of CPU replicas one
//! after another.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tch::{Device, Kind, TchError, Tensor};

use super::Strategy;
use crate::module::{Module, Pass, Tensors};
use crate::precision::{self, Arithmetic};
use crate::shim;

/// All modules except the first.
pub struct Replicas<M: Module> {
    /// Parameters of the first module.
    parameters: Vec<Tensor>,
    /// Buffers of the first module.
    buffers: Vec<Tensor>,
    replicas: Vec<Replica<M::Input>>,
    /// Rows that each module has trained on, starting with the first module.
    rows: Vec<u64>,
    threads: Vec<JoinHandle<()>>,
}

/// A copy of the module on its device, and the thread that computes there. (DataParallel starts new threads for each pass. cuDNN
/// remembers per thread which algorithms suit a convolution, so it would try them again in each pass.)
struct Replica<I> {
    parameters: Vec<Tensor>,
    buffers: Vec<Tensor>,
    work: SyncSender<Work<I>>,
    done: Receiver<Result<Tensor, TchError>>,
}

/// The input of one pass.
struct Work<I> {
    input: I,
    train: bool,
}

impl<I: Tensors> Replica<I> {
    fn start<M: Module<Input = I>>(
        index: usize,
        module: M,
        device: Device,
        mixed: Option<Kind>,
    ) -> Result<(Self, JoinHandle<()>), TchError> {
        let (parameters, buffers) = (module.parameters(), module.buffers());
        let (work, tasks) = sync_channel::<Work<I>>(1);
        let (results, done) = sync_channel(1);
        let compute = move || {
            while let Ok(Work { input, train }) = tasks.recv() {
                let pass = || {
                    let input = input.map_each(|tensor| tensor.f_to_device_(device, tensor.kind(), true, false))?;
                    module.forward(&input, &Pass { train, ..Pass::default() })
                };
                // Autocast and no-grad mode are per thread.
                let pass = || precision::forward(device, mixed, pass);
                let output = if train { pass() } else { tch::no_grad(pass) };
                if results.send(output).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("replica-{index}")).spawn(compute);
        let thread = thread.map_err(|error| TchError::Torch(format!("starting a replica's thread failed: {error}")))?;
        Ok((Self { parameters, buffers, work, done }, thread))
    }

    fn begin(&self, work: Work<I>) -> Result<(), TchError> {
        self.work.send(work).map_err(|_| ended())
    }

    fn end(&self) -> Result<Tensor, TchError> {
        self.done.recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> TchError {
    TchError::Torch("a replica's thread has ended".into())
}

impl<M: Module> Replicas<M> {
    /// Builds a replica on each device except the first, which holds `module`.
    pub fn new(
        module: &M,
        mixed: Option<Kind>,
        devices: &[Device],
        build: impl Fn(Device) -> Result<M, TchError>,
    ) -> Result<Self, TchError> {
        let mut all = Self {
            parameters: module.parameters(),
            buffers: module.buffers(),
            replicas: Vec::new(),
            rows: vec![0; devices.len()],
            threads: Vec::new(),
        };
        for (index, &device) in devices.iter().enumerate().skip(1) {
            let (replica, thread) = Replica::start(index, build(device)?, device, mixed)?;
            all.replicas.push(replica);
            all.threads.push(thread);
        }
        Ok(all)
    }

    /// Copies the first module's weights and running statistics to the replicas. As in DataParallel, their own are lost.
    fn replicate(&self) -> Result<(), TchError> {
        for replica in &self.replicas {
            shim::copy_all(&replica.parameters, &self.parameters)?;
            shim::copy_all(&replica.buffers, &self.buffers)?;
        }
        Ok(())
    }

    /// Splits the input into one part per module, or fewer for fewer rows. Each part comes with its number of rows.
    fn scatter(&self, input: &M::Input) -> Result<Vec<(M::Input, i64)>, TchError> {
        let rows = input.all().first().map_or(0, |tensor| tensor.size()[0]);
        let part = (rows + self.rows.len() as i64 - 1) / self.rows.len() as i64;
        let starts = (0..rows).step_by(part.max(1) as usize);
        let cut = |start: i64| {
            let length = part.min(rows - start);
            input.map_each(|tensor| tensor.f_narrow(0, start, length)).map(|input| (input, length))
        };
        starts.map(cut).collect()
    }
}

impl<M: Module> Drop for Replicas<M> {
    fn drop(&mut self) {
        // Closing the channels ends the threads.
        self.replicas.clear();
        for thread in self.threads.drain(..) {
            // A panic has already been printed.
            let _ = thread.join();
        }
    }
}

impl<M: Module> Strategy<M> for Replicas<M> {
    fn forward(
        &mut self,
        module: &M,
        arithmetic: &Arithmetic,
        input: &M::Input,
        train: bool,
    ) -> Result<Tensor, TchError> {
        self.replicate()?;
        let device = input.all().first().map_or(Device::Cpu, Tensor::device);
        let mut parts = self.scatter(input)?;
        self.rows.iter_mut().zip(&parts).for_each(|(sum, (_, rows))| *sum += rows.unsigned_abs());
        let others = parts.split_off(parts.len().min(1));
        let working = &self.replicas[..others.len()];
        for (replica, (input, _)) in working.iter().zip(others) {
            replica.begin(Work { input, train })?;
        }
        let pass = Pass { train, ..Pass::default() };
        let first = parts.iter().map(|(input, _)| arithmetic.forward(|| module.forward(input, &pass)));
        // Waits for every replica that was started, even if another failed.
        let outputs: Vec<_> = first.chain(working.iter().map(Replica::end)).collect();
        let gathered = outputs.into_iter().map(|part| part?.f_to_device(device));
        Tensor::f_cat(&gathered.collect::<Result<Vec<_>, _>>()?, 0)
    }

    fn after_backward(&mut self) -> Result<(), TchError> {
        self.replicas.iter().try_for_each(|replica| shim::add_gradients(&self.parameters, &replica.parameters))
    }

    fn seen(&self) -> Result<(u32, String), TchError> {
        let computed = self.rows.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let working = self.rows.iter().filter(|rows| **rows > 0).count();
        Ok((working as u32, format!("one process with {} models, which computed {computed} rows", self.rows.len())))
    }
}
