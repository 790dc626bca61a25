//! Where the mesh meets timely.

use super::Mesh;
use super::link::Link;
use super::mesh::Session;
use super::watch::Watch;
use crate::error::{Error, Result};
use std::any::Any;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use timely::communication::allocator::zero_copy::initialize::{CommsGuard, initialize_networking_from_sockets};
use timely::communication::allocator::zero_copy::stream::Stream;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::initialize::Hooks;

impl Stream for Link {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }
    /// Links are always blocking.
    fn set_nonblocking(&self, _nonblocking: bool) -> io::Result<()> {
        Ok(())
    }
    /// Timely shuts the sending half down when it has sent everything.
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.say_goodbye();
        }
        Ok(())
    }
}

/// What timely needs to run over a mesh, and the watch over the peers.
pub type Allocators = (Vec<AllocatorBuilder>, Box<dyn Any + Send>, Arc<Watch>);

/// Builders for the workers of this process, what must be kept until they have ended, and the watch over the peers.
///
/// Give the first two to `timely::execute::execute_from`. When timely drops the second, after the workers have ended, it
/// waits until all peers have said goodbye, or ends at once if the run is given up: ask [`Watch::lost`] again after
/// that. Workers of a lost run must leave by themselves, with their dataflows dropped; nothing that they wait for comes
/// any more. Every worker takes a [`Watch::alarm`], so that one that panics is not taken for one that has ended.
///
/// The network threads of a run that was given up are left to themselves: they end, but nobody joins them.
///
/// # Errors
/// The system gives no more threads.
pub fn allocators(mesh: Mesh, threads: usize) -> Result<Allocators> {
    let Mesh { session, links, process } = mesh;
    let watch = Arc::clone(&session.watch);
    let hooks = Hooks::default();
    let builders = ProcessBuilder::new_typed_vector(threads, hooks.refill.clone(), None);
    let (builders, comms) = initialize_networking_from_sockets(builders, links, process, threads, hooks)
        .map_err(|e| Error::cluster("cannot start the network threads").with_source(e))?;
    let guard = Guard { comms: Some(comms), session };
    Ok((builders.into_iter().map(AllocatorBuilder::Tcp).collect(), Box::new(guard), watch))
}

/// Ends the network after the workers.
struct Guard {
    comms: Option<CommsGuard>,
    session: Session,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let clean = self.session.watch.wait_for_end();
        if clean {
            // Both sides have said goodbye, or are about to: the threads end by themselves and are joined.
            drop(self.comms.take());
            self.session.end_cleanly();
        } else {
            // Joining would panic with them.
            std::mem::forget(self.comms.take());
            self.session.watch.abort_all("the run ended early");
            self.session.watch.release();
        }
    }
}
