//! EXTENDED COPY and RECEIVE COPY RESULTS.

use crate::fixture::*;

/// A CSCD descriptor for a unit: its NAA designator, as the device identification page has it.
async fn target(h: &Host, n: u16) -> Vec<u8> {
    let h = Host {
        device: h.device.clone(),
        nexus: h.nexus.clone(),
        aborts: h.aborts.clone(),
        lun: lun(n).to_bytes(),
    };
    let page = h.send(&[0x12, 1, 0x83, 1, 0, 0]).await.good();
    let mut out = vec![0xe4, 0, 0, 0];
    out.extend(&page[4..16]);
    out.resize(32, 0);
    out[29..32].copy_from_slice(&[0, 2, 0]);
    out
}

fn segment(from: (u16, u64), to: (u16, u64), blocks: u16) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 24];
    out.extend(from.0.to_be_bytes());
    out.extend(to.0.to_be_bytes());
    out.extend([0, 0]);
    out.extend(blocks.to_be_bytes());
    out.extend(from.1.to_be_bytes());
    out.extend(to.1.to_be_bytes());
    out
}

fn list(targets: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (targets, segments) = (targets.concat(), segments.concat());
    let mut out = vec![5, 0];
    out.extend((targets.len() as u16).to_be_bytes());
    out.extend([0; 4]);
    out.extend((segments.len() as u32).to_be_bytes());
    out.extend([0; 4]);
    out.extend(targets);
    out.extend(segments);
    out
}

fn list4(targets: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (targets, segments) = (targets.concat(), segments.concat());
    let mut out = vec![0; 48];
    out[0] = 1;
    out[20..24].copy_from_slice(&77u32.to_be_bytes());
    out[42..44].copy_from_slice(&(targets.len() as u16).to_be_bytes());
    out[44..46].copy_from_slice(&(segments.len() as u16).to_be_bytes());
    out.extend(targets);
    out.extend(segments);
    out
}

fn copy(action: u8, list: &[u8]) -> [u8; 16] {
    cdb16(0x83, action, 0, list.len() as u32)
}

fn results(action: u8, id: u8) -> [u8; 16] {
    let mut cdb = cdb16(0x84, action, 0, 1024);
    cdb[if action == 5 { 5 } else { 2 }] = id;
    cdb
}

#[test]
fn blocks_are_copied_between_units() {
    run(async {
        let d = device();
        let mut h = host(&d, 1).await;
        let data: Vec<u8> = (0..3000 * BLOCK).map(|i| (i / 7) as u8).collect();
        h.write(10, &data).await;
        let both = [target(&h, 0).await, target(&h, 1).await];
        let l = list(
            &both,
            &[
                segment((0, 10), (1, 100), 3000),
                segment((0, 10), (0, 5000), 1),
            ],
        );
        h.put(&copy(0, &l), &l).await.good();
        let status = h.send(&results(0, 5)).await.good();
        assert_eq!(status, [0, 0, 0, 8, 1, 0, 2, 1, 0, 0, 0x05, 0xdc]);
        assert_eq!(h.send(&results(4, 5)).await.good(), [0; 4]);
        assert_eq!(
            h.send(&results(0, 6)).await.check(),
            INVALID_CDB,
            "nobody remembers it"
        );
        let l = list4(&both, &[segment((0, 10), (0, 6000), 1)]);
        h.put(&copy(1, &l), &l).await.good();
        let status = h.send(&results(5, 77)).await.good();
        assert_eq!((status.len(), status[5], status[12]), (32, 1, 0));
        assert_eq!(
            (h.read(5000, 1).await, h.read(6000, 1).await),
            (data[..BLOCK].to_vec(), data[..BLOCK].to_vec())
        );
        h.lun = lun(1).to_bytes();
        assert_eq!(h.read(100, 3000).await, data);
    });
}

#[test]
fn wrong_lists_copy_nothing() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let t = [target(&h, 0).await];
        let good = segment((0, 0), (0, 100), 8);
        let mut other_type = t[0].clone();
        other_type[0] = 0xe0;
        let mut stranger = t[0].clone();
        stranger[8] ^= 1;
        let mut stream = good.clone();
        stream[0] = 3;
        let aborted = (0x0a, 0);
        for (l, sense) in [
            (list(&t, &[segment((0, 0), (1, 0), 8)]), (0x0a, 0x0d02)),
            (
                list(&[stranger], std::slice::from_ref(&good)),
                (0x0a, 0x0d02),
            ),
            (
                list(&t, &[good.clone(), segment((0, 0), (0, BLOCKS - 1), 2)]),
                aborted,
            ),
            (
                list(&[other_type], std::slice::from_ref(&good)),
                (ILLEGAL, 0x2607),
            ),
            (list(&t, &[stream]), (ILLEGAL, 0x2609)),
            (
                list(&vec![t[0].clone(); 9], std::slice::from_ref(&good)),
                (ILLEGAL, 0x2606),
            ),
            (list(&t, &vec![good.clone(); 17]), (ILLEGAL, 0x2608)),
            (
                list(&vec![t[0].clone(); 9], &vec![good.clone(); 17]),
                (ILLEGAL, 0x1a00),
            ),
        ] {
            assert_eq!(h.put(&copy(0, &l), &l).await.check(), sense, "{l:x?}");
        }
        let l = list(&t, &[good]);
        for cut in 1..l.len() {
            assert_eq!(
                h.put(&copy(0, &l[..cut]), &l[..cut]).await.check(),
                (ILLEGAL, 0x1a00)
            );
        }
        h.send(&copy(0, &[])).await.good();
        let parameters = h.send(&results(3, 0)).await.good();
        assert_eq!(
            u32::from_be_bytes([0, 0, parameters[2], parameters[3]]) as usize + 4,
            parameters.len()
        );
        assert_eq!((parameters[9], parameters[11]), (8, 16));
    });
}
