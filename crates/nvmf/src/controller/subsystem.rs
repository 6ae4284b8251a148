//! A subsystem: a name, its namespaces, and the hosts that may connect.
//!
//! **Owns** [`Subsystem`], shared by all shards. **Called by** the control plane and by connections.
//! **Invariants**: the data path reads a snapshot of the namespaces and reads one atomic to know whether the snapshot
//! is current; changing the namespaces makes a new snapshot.

use super::config::{HostPolicy, SubsystemConfig, TargetError, Transport, Transports};
use super::latency::{LatencyBuckets, LatencyCounters};
use super::namespace::Namespace;
use crate::wire::nqn::Nqn;
use io::sync::lock;
use session::stages::StageCounters;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Namespaces by ID.
pub(crate) type NamespaceMap = BTreeMap<u32, Arc<Namespace>>;

/// A subsystem as all shards share it.
pub(crate) struct Subsystem {
    pub(crate) nqn: Nqn,
    pub(crate) serial: String,
    pub(crate) model: String,
    hosts: Mutex<HostPolicy>,
    transports: Mutex<Transports>,
    namespaces: Mutex<Arc<NamespaceMap>>,
    generation: AtomicU64,
    /// Hosts that connect are told to try again later.
    is_held: AtomicBool,
    pub(crate) totals: Totals,
}

/// Counts for the SMART log and the metrics.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) media_errors: AtomicU64,
    pub(crate) latencies: LatencyCounters,
    pub(crate) stages: Arc<StageCounters>,
}

/// Totals of the sessions to a subsystem since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsystemTotals {
    /// Its name.
    pub nqn: Nqn,
    /// Bytes that Reads and Copies read.
    pub bytes_read: u64,
    /// Bytes that Writes, Write Zeroes and Copies wrote.
    pub bytes_written: u64,
    /// Commands that ended with a media error.
    pub media_errors: u64,
    /// How long I/O commands took, by kind; their sum is the number of commands.
    pub latencies: Vec<LatencyBuckets>,
}

impl Subsystem {
    pub(crate) fn new(config: SubsystemConfig) -> Subsystem {
        Subsystem {
            nqn: config.nqn,
            serial: config.serial,
            model: config.model,
            hosts: Mutex::new(config.hosts),
            transports: Mutex::new(config.transports),
            namespaces: Mutex::default(),
            generation: AtomicU64::new(1),
            is_held: AtomicBool::new(false),
            totals: Totals::default(),
        }
    }

    pub(crate) fn totals(&self) -> SubsystemTotals {
        let t = &self.totals;
        SubsystemTotals {
            nqn: self.nqn.clone(),
            bytes_read: t.bytes_read.load(Ordering::Relaxed),
            bytes_written: t.bytes_written.load(Ordering::Relaxed),
            media_errors: t.media_errors.load(Ordering::Relaxed),
            latencies: t.latencies.snapshot(),
        }
    }

    pub(crate) fn allows(&self, host: &Nqn) -> bool {
        lock(&self.hosts).allows(host)
    }

    /// Whether `host` is on its list, and not only allowed because all hosts are.
    pub(crate) fn lists(&self, host: &Nqn) -> bool {
        lock(&self.hosts).lists(host)
    }

    /// Whether only listed hosts are let in.
    pub(crate) fn has_list(&self) -> bool {
        matches!(*lock(&self.hosts), HostPolicy::List(_))
    }

    pub(crate) fn set_hosts(&self, hosts: HostPolicy) {
        *lock(&self.hosts) = hosts;
    }

    /// Whether hosts may connect over `transport`.
    pub(crate) fn serves(&self, transport: Transport) -> bool {
        self.transports().has(transport)
    }

    /// The transports over which hosts may connect.
    pub(crate) fn transports(&self) -> Transports {
        *lock(&self.transports)
    }

    pub(crate) fn set_transports(&self, transports: Transports) {
        *lock(&self.transports) = transports;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    pub(crate) fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    /// Changes with the set of namespaces.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    pub(crate) fn namespaces(&self) -> Arc<NamespaceMap> {
        lock(&self.namespaces).clone()
    }

    pub(crate) fn add(&self, ns: Namespace) -> Result<(), TargetError> {
        let mut current = lock(&self.namespaces);
        if current.contains_key(&ns.nsid.0) {
            return Err(TargetError::NamespaceExists(ns.nsid.0));
        }
        let mut next = NamespaceMap::clone(&current);
        next.insert(ns.nsid.0, Arc::new(ns));
        *current = Arc::new(next);
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn remove(&self, nsid: u32) -> Result<(), TargetError> {
        let mut current = lock(&self.namespaces);
        let mut next = NamespaceMap::clone(&current);
        next.remove(&nsid).ok_or(TargetError::NoNamespace(nsid))?;
        *current = Arc::new(next);
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}
