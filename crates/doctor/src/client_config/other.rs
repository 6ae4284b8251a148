//! ESXi and Windows.
//!
//! **Called by** [`super`]. Their settings are commands.

use super::settings::{Address, ClientSettings, Export, Unsupported};
use super::timeouts::{ISCSI_REPLACEMENT_MULTIPATH_S, ISCSI_REPLACEMENT_S, SCSI_COMMAND_S};

pub(super) fn esxi(export: &Export, s: &mut ClientSettings) {
    match export {
        Export::Nvme { discovery, .. } => {
            s.note("vmnicN is the uplink, vmkN the VMkernel port and vmhbaN the NVMe/TCP adapter: `esxcli nvme adapter list`");
            s.command("esxcli nvme fabrics enable --protocol TCP --device vmnicN");
            s.command("esxcli network ip interface tag add -i vmkN -t NVMeTCP");
            for a in discovery {
                s.command(format!(
                    "esxcli nvme fabrics discover -a vmhbaN -i {} -p {} -c",
                    a.host, a.port
                ));
            }
            s.note(
                "time-outs of NVMe/TCP are ESXi's own: it looks for a lost controller by itself",
            );
        }
        Export::Iscsi {
            portals, has_chap, ..
        } => {
            s.note("vmhbaN is the software iSCSI adapter: `esxcli iscsi adapter list`");
            s.command("esxcli iscsi software set --enabled=true");
            for a in portals {
                s.command(format!(
                    "esxcli iscsi adapter discovery sendtarget add -A vmhbaN -a {}",
                    a.portal()
                ));
            }
            s.command(format!(
                "esxcli iscsi adapter param set -A vmhbaN -k RecoveryTimeout -v {ISCSI_REPLACEMENT_MULTIPATH_S}"
            ));
            s.command("esxcli iscsi adapter param set -A vmhbaN -k DelayedAck -v false");
            s.command(
                "esxcli storage nmp satp rule add -s VMW_SATP_DEFAULT_AA -V WIREPOOL -P VMW_PSP_RR -O iops=1 -e \"Wirepool: use all paths\"",
            );
            s.command("esxcli storage core adapter rescan -A vmhbaN");
            s.note(format!(
                "RecoveryTimeout {ISCSI_REPLACEMENT_MULTIPATH_S}: another path takes over after this time; without one, guests wait until \
                 their own time-out"
            ));
            s.note("DelayedAck false: small writes do not wait for delayed acknowledgements");
            if *has_chap {
                s.note("CHAP: esxcli iscsi adapter auth chap set -A vmhbaN --direction=uni --level=required --authname=USER --secret=SECRET");
            }
        }
        Export::Nfs {
            path, addresses, ..
        } => {
            let name = path.rsplit('/').next().unwrap_or("nfs");
            let hosts: Vec<&str> = addresses.iter().map(|a| a.host.as_str()).collect();
            s.command(format!(
                "esxcli storage nfs41 add -H {} -s {path} -v wirepool-{name}",
                hosts.join(",")
            ));
            s.note("never mount one export by NFS 3 and 4.1 at the same time: the locks of the two do not see each other");
        }
    }
    s.note(format!(
        "guests: give their disks a command time-out of {SCSI_COMMAND_S} s or more (VMware Tools set 180 s)"
    ));
}

pub(super) fn windows(export: &Export, s: &mut ClientSettings) -> Result<(), Unsupported> {
    match export {
        Export::Nvme { .. } => Err(Unsupported::NoClient(
            "Windows has no NVMe/TCP initiator that is ready for production: export the volume over iSCSI",
        )),
        Export::Iscsi {
            iqn,
            portals,
            has_chap,
            ..
        } => {
            s.file("wirepool-iscsi.ps1", iscsi_script(export, iqn, portals));
            s.command("powershell -ExecutionPolicy Bypass -File wirepool-iscsi.ps1");
            s.note("restart Windows once: the time-outs are read at boot");
            if *has_chap {
                s.note("CHAP: add -AuthenticationType ONEWAYCHAP -ChapUsername USER -ChapSecret SECRET to Connect-IscsiTarget");
            }
            Ok(())
        }
        Export::Nfs {
            path, addresses, ..
        } => {
            let share = path.replace('/', "\\");
            s.command("Install-WindowsFeature NFS-Client");
            s.command(format!(
                "mount -o nolock,mtype=hard,rsize=1024,wsize=1024 \\\\{}{share} Z:",
                addresses[0].host
            ));
            s.note("nolock: Windows speaks version 3, and the server has no lock manager for it: let one client at a time write a file");
            s.note(
                "mtype=hard: programs wait for a server that is away; rsize and wsize are in KiB",
            );
            Ok(())
        }
    }
}

fn iscsi_script(export: &Export, iqn: &str, portals: &[Address]) -> String {
    let mut text = format!(
        "# Disks: a command may take as long as a server needs to restart.\n\
         Set-ItemProperty 'HKLM:\\SYSTEM\\CurrentControlSet\\Services\\Disk' TimeOutValue {SCSI_COMMAND_S} -Type DWord\n\
         # Initiator: I/O waits for a lost session; a lost link is noticed by NOP-Outs.\n\
         $class = 'HKLM:\\SYSTEM\\CurrentControlSet\\Control\\Class\\{{4D36E97B-E325-11CE-BFC1-08002BE10318}}'\n\
         Get-ChildItem $class -ErrorAction SilentlyContinue | ForEach-Object {{\n    \
             $p = Join-Path $_.PSPath 'Parameters'\n    \
             if ((Get-ItemProperty $p -ErrorAction SilentlyContinue).MaxRequestHoldTime) {{\n        \
                 Set-ItemProperty $p MaxRequestHoldTime {ISCSI_REPLACEMENT_S} -Type DWord\n        \
                 Set-ItemProperty $p EnableNOPOut 1 -Type DWord\n        \
                 Set-ItemProperty $p LinkDownTime {ISCSI_REPLACEMENT_MULTIPATH_S} -Type DWord\n    \
             }}\n\
         }}\n\
         Set-Service MSiSCSI -StartupType Automatic\n\
         Start-Service MSiSCSI\n"
    );
    if export.has_paths() {
        text += "# Both portals lead to the same units.\n\
                 Install-WindowsFeature Multipath-IO\n\
                 Enable-MSDSMAutomaticClaim -BusType iSCSI\n\
                 Set-MSDSMGlobalDefaultLoadBalancePolicy -Policy RR\n";
    }
    let multipath = if export.has_paths() {
        " -IsMultipathEnabled $true"
    } else {
        ""
    };
    for a in portals {
        text += &format!(
            "New-IscsiTargetPortal -TargetPortalAddress {} -TargetPortalPortNumber {}\n\
             Connect-IscsiTarget -NodeAddress {iqn} -TargetPortalAddress {} -TargetPortalPortNumber {} -IsPersistent $true{multipath}\n",
            a.host, a.port, a.host, a.port
        );
    }
    text
}
