//! Identify (Base 5.17, NVM 4.1.5): structures that describe the controller, the subsystem and its namespaces.
//!
//! **Called by** the admin dispatcher. **Invariants**: a structure announces only limits that the controller enforces.

use crate::controller::association::{Controller, ControllerKind};
use crate::controller::command::Command;
use crate::controller::config::Transport;
use crate::controller::limits::{
    ABORTS_MAX, ADMIN_DEPTH_MAX, ASYNC_EVENTS_MAX, COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX,
    COPY_RANGES_MAX, ERROR_LOG_MAX, KAS_100MS, NAMESPACES_MAX,
};
use crate::controller::namespace::{Namespace, block_shift, used_blocks};
use crate::controller::phase::Ready;
use crate::controller::request::Identify;
use crate::wire::command::Nsid;
use crate::wire::fabrics::VERSION_2_0;
use crate::wire::features::AsyncEventConfig;
use crate::wire::identify::{
    CSI_NVM, IdentifyController, IdentifyControllerNvm, IdentifyNamespace,
    IdentifyNamespaceIndependent, IdentifyNamespaceNvm, IoCommandSets, LbaFormat,
    NamespaceDescriptor, NamespaceList, cns, descriptor_list,
};
use crate::wire::nqn::Nqn;
use crate::wire::status::Status;
use crate::wire::text::put_padded;
use backend::Geometry;
use io::Payload;
use std::sync::Arc;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// ANA group of every namespace: one group today, by ID so that there can be more.
pub(crate) const ANA_GROUP: u32 = 1;

/// ONCS: compare, dataset management, write zeroes, reservations, timestamp, verify, copy.
const ONCS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;
/// SGLS: SGLs supported, offset in the address field (in-capsule data), transport SGL data block.
const SGLS: u32 = 1 | 1 << 20 | 1 << 21;
/// SGLS over RDMA: SGLs supported, keyed SGL data block, offset in the address field (in-capsule data).
const SGLS_RDMA: u32 = 1 | 1 << 2 | 1 << 20;
/// CTRATT: 128-bit host identifier, traffic based keep alive.
const CTRATT: u32 = 1 | 1 << 6;
/// RESCAP: persist through power loss, the six types, IEKEY as of version 1.3.
const RESCAP: u8 = 0xff;

impl Ready<'_> {
    /// Identify (Base 5.17). Structures by CNS; unknown ones are Invalid Field.
    pub(super) fn identify(
        &mut self,
        command: Command,
        wanted: Identify,
        controller: &Arc<Controller>,
    ) {
        let ControllerKind::Io(subsystem) = &controller.kind else {
            return match wanted.cns {
                cns::CONTROLLER => {
                    self.send_structure(command, bytes(&self.identify_discovery(controller)))
                }
                _ => self.fail(command, Status::INVALID_FIELD.dnr()),
            };
        };
        let namespaces = subsystem.namespaces();
        let list = |from: u32| {
            let after = namespaces
                .range(from.saturating_add(1)..)
                .map(|(id, _)| Nsid(*id));
            bytes(&NamespaceList::new(after))
        };
        let nsid = command.nsid();
        let listable = nsid.0 < 0xffff_fffe;
        let nvm = wanted.csi == CSI_NVM;
        let answer = match wanted.cns {
            cns::NAMESPACE | cns::ALLOCATED_NAMESPACE => {
                return self.identify_namespace(command, controller);
            }
            cns::NAMESPACE_CSI if nvm => self
                .namespace(nsid)
                .map(|_| bytes(&IdentifyNamespaceNvm::new_zeroed())),
            cns::NAMESPACE_INDEPENDENT => self.namespace(nsid).map(|v| bytes(&independent(&v.ns))),
            cns::NAMESPACE_DESCRIPTORS => self.namespace(nsid).map(|v| descriptors(&v.ns)),
            cns::CONTROLLER => Ok(bytes(&self.identify_controller(controller))),
            cns::CONTROLLER_CSI if nvm => Ok(bytes(&IdentifyControllerNvm::new_zeroed())),
            cns::ACTIVE_NAMESPACES | cns::ALLOCATED_NAMESPACES if listable => Ok(list(nsid.0)),
            cns::ACTIVE_NAMESPACES_CSI if listable && nvm => Ok(list(nsid.0)),
            cns::ACTIVE_NAMESPACES | cns::ALLOCATED_NAMESPACES | cns::ACTIVE_NAMESPACES_CSI
                if nvm =>
            {
                Err(Status::INVALID_NAMESPACE.dnr())
            }
            cns::NAMESPACE_CONTROLLERS => self
                .namespace(nsid)
                .map(|_| self.controller_list(subsystem.nqn.clone(), wanted.cntid)),
            cns::CONTROLLERS => Ok(self.controller_list(subsystem.nqn.clone(), wanted.cntid)),
            cns::IO_COMMAND_SETS => {
                let mut sets = IoCommandSets::new_zeroed();
                sets.0[0] = U64::new(1 << CSI_NVM);
                Ok(bytes(&sets))
            }
            _ => Err(Status::INVALID_FIELD.dnr()),
        };
        match answer {
            Ok(payload) => self.send_structure(command, payload),
            Err(status) => self.fail(command, status),
        }
    }

    /// Controllers of a subsystem from `from` on (Base figure 290): count, then IDs.
    fn controller_list(&self, nqn: Nqn, from: u16) -> Payload {
        let ids = self.target().controllers_of(&nqn);
        let ids: Vec<u16> = ids
            .into_iter()
            .filter(|id| *id >= from)
            .take(2047)
            .collect();
        let mut out = (ids.len() as u16).to_le_bytes().to_vec();
        out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        out.resize(4096, 0);
        Payload::from(out)
    }

    /// The fields that all kinds of controllers have in common.
    fn identify_common(&self, controller: &Controller) -> IdentifyController {
        let config = &self.target().config;
        let mut id = IdentifyController::new_zeroed();
        put_padded(&mut id.fr, &config.firmware);
        id.mdts = (config.mdts / 4096).ilog2() as u8;
        id.cntlid = U16::new(controller.cntlid);
        id.ver = U32::new(VERSION_2_0);
        id.ctratt = U32::new(CTRATT);
        id.acl = ABORTS_MAX - 1;
        id.aerl = ASYNC_EVENTS_MAX as u8 - 1;
        id.kas = U16::new(KAS_100MS);
        // Extended data for Get Log Page: 32-bit NUMD and LPO.
        id.lpa = 1 << 2;
        id.elpe = ERROR_LOG_MAX as u8 - 1;
        id.sqes = 0x66;
        id.cqes = 0x44;
        id.sgls = U32::new(match controller.transport {
            Transport::Tcp => SGLS,
            Transport::Rdma => SGLS_RDMA,
        });
        id.ioccsz = U32::new((64 + config.in_capsule(controller.transport)) / 16);
        id.iorcsz = U32::new(1);
        id.msdbd = 1;
        id
    }

    fn identify_discovery(&self, controller: &Controller) -> IdentifyController {
        let mut id = self.identify_common(controller);
        put_padded(&mut id.sn, "discovery");
        put_padded(&mut id.mn, "Wirepool discovery");
        id.cntrltype = 2;
        id.maxcmd = U16::new(ADMIN_DEPTH_MAX);
        id.oaes = U32::new(AsyncEventConfig::DISCOVERY_CHANGE.bits());
        id.subnqn = (&Nqn::discovery()).into();
        id
    }

    fn identify_controller(&self, controller: &Controller) -> IdentifyController {
        let mut id = self.identify_common(controller);
        let ControllerKind::Io(subsystem) = &controller.kind else {
            return id;
        };
        put_padded(&mut id.sn, &subsystem.serial);
        put_padded(&mut id.mn, &subsystem.model);
        id.rab = 6;
        // Several ports, several controllers, ANA reporting.
        id.cmic = 1 | 1 << 1 | 1 << 3;
        id.cntrltype = 1;
        id.oaes =
            U32::new((AsyncEventConfig::NAMESPACE_ATTRIBUTE | AsyncEventConfig::ANA_CHANGE).bits());
        id.lpa |= 1 << 1;
        // One firmware slot, read only.
        id.frmw = 1 | 1 << 1;
        id.wctemp = U16::new(343);
        id.cctemp = U16::new(353);
        id.anatt = 10;
        // Optimized is the only state today; ANAGRPID of a namespace does not change.
        id.anacap = 1 | 1 << 6;
        id.anagrpmax = U32::new(ANA_GROUP);
        id.nanagrpid = U32::new(1);
        id.maxcmd = U16::new(self.queue_depth_max());
        id.nn = U32::new(NAMESPACES_MAX);
        id.mnan = U32::new(NAMESPACES_MAX);
        id.oncs = U16::new(ONCS);
        id.fuses = U16::new(1);
        let volatile = subsystem
            .namespaces()
            .values()
            .any(|ns| ns.backend.geometry().volatile_cache);
        // Flush takes NSID FFFFFFFFh whether or not there is a cache.
        id.vwc = u8::from(volatile) | 0b11 << 1;
        id.cdfs = U16::new(1);
        id.subnqn = (&subsystem.nqn).into();
        let capacity: u128 = subsystem
            .namespaces()
            .values()
            .map(|ns| ns.backend.geometry())
            .map(|g| u128::from(g.blocks) * u128::from(g.block_size))
            .sum();
        id.tnvmcap = capacity.to_le_bytes();
        id
    }

    /// Identify Namespace (CNS 00h and 11h); an inactive ID reads as zeroes, FFFFFFFFh as the fields that all namespaces have
    /// in common.
    fn identify_namespace(&mut self, command: Command, controller: &Controller) {
        let nsid = command.nsid();
        if nsid == Nsid::ALL {
            let mut id = IdentifyNamespace::new_zeroed();
            id.nmic = 1;
            id.rescap = RESCAP;
            return self.send_structure(command, bytes(&id));
        }
        if nsid == Nsid::NONE || nsid.0 > NAMESPACES_MAX || controller.subsystem().is_none() {
            return self.fail(command, Status::INVALID_NAMESPACE.dnr());
        }
        let Ok(view) = self.namespace(nsid) else {
            return self.send_structure(command, bytes(&IdentifyNamespace::new_zeroed()));
        };
        let ns = view.ns.clone();
        let usage = ns.backend.usage();
        self.wait_for(command, usage, move |ready, command, usage| {
            let id = identify_namespace(&ns, usage);
            ready.send_structure(command, bytes(&id));
        });
    }
}

fn bytes<T: IntoBytes + zerocopy::Immutable>(structure: &T) -> Payload {
    Payload::from(structure.as_bytes().to_vec())
}

fn descriptors(ns: &Namespace) -> Payload {
    let id = ns.uuid.into_bytes();
    let list = descriptor_list(&[
        NamespaceDescriptor::Nguid(id),
        NamespaceDescriptor::Uuid(id),
        NamespaceDescriptor::Csi(CSI_NVM),
    ]);
    Payload::from(list.to_vec())
}

fn independent(ns: &Namespace) -> IdentifyNamespaceIndependent {
    let mut id = IdentifyNamespaceIndependent::new_zeroed();
    id.nmic = 1;
    id.rescap = RESCAP;
    id.anagrpid = U32::new(ANA_GROUP);
    id.nsattr = u8::from(ns.backend.geometry().read_only);
    id.nstat = 1;
    id
}

/// A count of blocks as a 0's based 16-bit field.
fn zero_based(blocks: u32) -> U16 {
    U16::new(u16::try_from(blocks.max(1) - 1).unwrap_or(u16::MAX))
}

/// The atomicity of writes that the backend promises (NVM Command Set 1.1, 2.1.4 and figure 114). A longer
/// compare-and-write is executed too: no other write is executed between its halves.
fn report_atomicity(id: &mut IdentifyNamespace, g: &Geometry) {
    let unit = zero_based(g.atomic_write_blocks);
    (id.nawun, id.nawupf, id.nacwu) = (unit, unit, unit);
    // 0's based, where 0 says that there is no boundary; a single block crosses none. NABO: boundaries begin at block 0.
    let boundary = match g.atomic_boundary_blocks {
        0 => U16::ZERO,
        blocks => zero_based(blocks),
    };
    (id.nabsn, id.nabspf) = (boundary, boundary);
}

fn identify_namespace(ns: &Namespace, usage: backend::Result<backend::Usage>) -> IdentifyNamespace {
    let g: Geometry = ns.backend.geometry();
    let mut id = IdentifyNamespace::new_zeroed();
    id.nsze = U64::new(g.blocks);
    id.ncap = U64::new(g.blocks);
    id.nuse = U64::new(if g.thin {
        used_blocks(usage, &g)
    } else {
        g.blocks
    });
    // Atomicity and optimal sizes of its own; thin provisioning if space is taken on write.
    id.nsfeat = u8::from(g.thin) | 1 << 1 | 1 << 4;
    id.nmic = 1;
    id.rescap = RESCAP;
    // Deallocated blocks read as zero; Write Zeroes may deallocate.
    id.dlfeat = 1 | 1 << 3;
    report_atomicity(&mut id, &g);
    let bytes = u128::from(g.blocks) * u128::from(g.block_size);
    id.nvmcap = bytes.to_le_bytes();
    let optimal = zero_based((g.physical_block / g.block_size.max(1)).max(1));
    id.npwg = optimal;
    id.npwa = optimal;
    id.npdg = zero_based(g.deallocate_blocks);
    id.npda = zero_based(g.deallocate_blocks);
    id.nows = zero_based(g.optimal_blocks);
    id.mssrl =
        U16::new(u16::try_from(COPY_RANGE_BYTES_MAX / g.block_size.max(1)).unwrap_or(u16::MAX));
    id.mcl = U32::new(COPY_BYTES_MAX / g.block_size.max(1));
    id.msrc = COPY_RANGES_MAX as u8 - 1;
    id.anagrpid = U32::new(ANA_GROUP);
    id.nsattr = u8::from(g.read_only);
    id.nguid = ns.uuid.into_bytes();
    id.lbaf[0] = LbaFormat {
        metadata_size: U16::ZERO,
        data_size: block_shift(g.block_size),
        relative_performance: 0,
    };
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::BlockBackend;
    use backend::memory::MemoryDisk;

    fn reported(unit: u32, boundary: u32) -> [u16; 6] {
        let disk = MemoryDisk::new(1 << 20, 512).expect("a RAM disk");
        let geometry = Geometry {
            atomic_write_blocks: unit,
            atomic_boundary_blocks: boundary,
            ..disk.geometry()
        };
        let mut id = IdentifyNamespace::new_zeroed();
        report_atomicity(&mut id, &geometry);
        [id.nawun, id.nawupf, id.nacwu, id.nabsn, id.nabspf, id.nabo].map(U16::get)
    }

    /// A unit without a boundary was promised, though a write across two records may tear.
    #[test]
    fn atomicity_is_reported_with_its_boundary() {
        assert_eq!(reported(32, 32), [31, 31, 31, 31, 31, 0]);
        assert_eq!(reported(8, 32), [7, 7, 7, 31, 31, 0]);
        assert_eq!(reported(1, 0), [0; 6], "nothing beyond a block");
    }
}
