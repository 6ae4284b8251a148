//! Cases of RDMA.

use crate::{Case, cases};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = software();
    cases.extend(ports());
    cases.extend(roce());
    cases
}

#[rustfmt::skip]
fn software() -> Vec<Case> {
    cases! {
        "rdma-driver": {"/rdma/ports": [], "/kernel/modules": []} / {"/rdma/ports": []};
        "rdma-modules": {"/kernel/modules": ["ib_ipoib", "ib_uverbs", "rdma_cm"]} / {"/kernel/modules": [], "/rdma/ports": []};
        "rdma-modules": {"/kernel/modules": ["ib_uverbs", "rdma_cm", "rdma_ucm"]}
            / {"/kernel/modules": ["ib_uverbs", "rdma_cm", "rdma_ucm"], "/rdma/ports/2/link_layer": "Ethernet"};
        "rdma-modules-boot": {"/kernel/boot_modules": ["rdma_cm"]} / {"/kernel/boot_modules": [], "/rdma/ports": []};
        "rdma-nvme-module": {"/rdma/has_nvme_rdma": false} / {"/rdma/has_nvme_rdma": false, "/rdma/ports": []};
        "rdma-libraries": {"/rdma/libraries": ["libibverbs.so.1"]} / {"/rdma/libraries": [], "/rdma/ports": []};
        "rdma-provider": {"/rdma/providers": ["mlx4"]} / {"/rdma/providers": [], "/rdma/libraries": []};
        "rdma-device-files": {"/rdma/nodes": []} / {"/rdma/nodes": [], "/rdma/ports": []};
        "rdma-device-files": {"/rdma/nodes/1/mode": 384} / {"/rdma/nodes/1/mode": 384, "/service/uid": 0};
        "rdma-device-files": {"/service/gids": [990]} / {"/service/gids": [990], "/rdma/nodes/2/uid": 990};
        "rdma-unit-devices": {"/service/unit/device_allow": ["block-* rw"]}
            / {"/service/unit/device_allow": [], "/service/unit/device_policy": "auto"};
        "rdma-unit-devices": {"/service/unit/device_allow": ["char-infiniband_verbs r", "/dev/infiniband/rdma_cm rw"]}
            / {"/service/unit/device_allow": ["char-*"]};
        "rdma-unit-devices": {"/service/unit/has_private_devices": true} / {"/service/unit": null};
        "rdma-memlock": {"/service/unit/memlock": 8388608} / {"/service/unit/memlock": 536870912};
        "rdma-listen": {"/server/listen": ["192.0.2.7:4420"]} / {"/server/listen": ["192.0.2.7:4420", "10.0.0.1:4420"]};
        "rdma-listen": {"/server/listen": ["0.0.0.0:4420"], "/nics/0/addresses": []} / {"/server/listen": ["0.0.0.0:4420"]};
    }
}

#[rustfmt::skip]
fn ports() -> Vec<Case> {
    cases! {
        "rdma-port-down": {"/rdma/ports/0/state": "DOWN"} / {"/rdma/ports": []};
        "rdma-subnet-manager": {"/rdma/ports/2/sm_lid": 0} / {"/rdma/ports/1/sm_lid": 0};
        "rdma-subnet-manager": {"/rdma/ports/2/sm_lid": 0, "/rdma/ports/2/state": "INIT"}
            / {"/rdma/ports/2/sm_lid": 0, "/rdma/ports/2/state": "DOWN", "/rdma/ports/2/phys_state": "Polling"};
        "rdma-port-mode": {"/rdma/ports/1/link_layer": "InfiniBand", "/rdma/ports/1/sm_lid": 1}
            / {"/rdma/ports/1/link_layer": "InfiniBand", "/rdma/ports/1/sm_lid": 1, "/rdma/ports/1/pci": "0000:42:00.0"};
        "rdma-port-mode": {"/rdma/ports/2/state": "DOWN", "/rdma/ports/2/phys_state": "Polling"}
            / {"/rdma/ports/2/state": "DOWN", "/rdma/ports/2/phys_state": "Polling", "/rdma/ports/2/mode": null};
        "rdma-link-width": {"/rdma/ports/2/rate/lanes": 1} / {"/rdma/ports/2/rate/lanes": 2};
        "rdma-pcie": {"/rdma/ports/2/pcie/width": 4} / {"/rdma/ports/2/pcie/width": 4, "/rdma/ports/2/state": "DOWN"};
        "rdma-ipoib-mode": {"/rdma/ipoib/0": {"name": "ib0", "mode": "datagram", "mtu": 2044}}
            / {"/rdma/ipoib/0": {"name": "ib0", "mode": "datagram", "mtu": 4092}};
        "rdma-ipoib-mode": {"/rdma/ipoib/0/mtu": 2044} / {"/rdma/ipoib/0/mtu": 65520};
        "rdma-sriov-guid": {"/rdma/ports/0/is_virtual_function": true, "/rdma/ports/0/node_guid": "0000:0000:0000:0000"}
            / {"/rdma/ports/0/is_virtual_function": true};
        "rdma-sriov-guid": {"/rdma/ports/0/functions/without_guid": [0]} / {"/rdma/ports/0/functions/count": 4};
        "rdma-errors": {"/rdma/ports/0/errors/out_of_sequence": 3} / {"/rdma/ports/0/errors": {"out_of_sequence": 0}};
    }
}

#[rustfmt::skip]
fn roce() -> Vec<Case> {
    cases! {
        "rdma-gids": {"/rdma/ports/0/gids": [{"index": 0, "gid": "fe80:0000:0000:0000:0000:0000:0000:0001", "kind": "RoCE v2"}]}
            / {"/rdma/ports/2/gids": []};
        "rdma-gids": {"/rdma/ports/0/gids/0/kind": "IB/RoCE v1"}
            / {"/rdma/ports/0/gids/0/kind": "IB/RoCE v1", "/rdma/ports/0/is_iwarp": true};
        "rdma-cm-mode": {"/rdma/ports/0/cm_mode": "IB/RoCE v1"} / {"/rdma/ports/0/cm_mode": "RoCE v2"};
        "rdma-roce-mtu": {"/nics/0/mtu": 1500} / {"/nics/0/mtu": 4200};
        "rdma-flow-control": {"/nics/0/pfc": [], "/nics/0/pause": {"rx": false, "tx": false}}
            / {"/nics/0/pfc": [], "/nics/0/pause": {"rx": true, "tx": true}};
        "rdma-traffic-class": {"/rdma/ports/0/traffic_class": 0} / {"/rdma/ports/0/traffic_class": 0, "/nics/0/pfc": [0, 3]};
        "rdma-ecn": {"/rdma/ports/0/is_ecn_on": false} / {"/rdma/ports/2/is_ecn_on": false};
    }
}
