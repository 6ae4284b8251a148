//! The layout of a new pool: the proposed disks, and their vdevs.
//!
//! **Called by** `choose`. **Invariants**: pure; every disk has one place; a mirror has two members or three, a raidz all disks.

use super::answers::Layout;
use super::disks::Disk;
use super::facts::Member;
use anyhow::{Result, bail};
use pool::format::MEMBERS_MAX;
use server::ByteSize;

/// Disks whose sizes differ by at most one part of this number of parts count as equal.
const SIZE_TOLERANCE: u64 = 50;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// The indexes of the proposed disks: of the free ones, the largest group of equal size and kind; of equal groups the one with the
/// larger disks.
pub(crate) fn propose(disks: &[Disk]) -> Vec<usize> {
    let alike = |a: &Disk, b: &Disk| {
        a.is_rotating == b.is_rotating && a.size.abs_diff(b.size) <= a.size / SIZE_TOLERANCE
    };
    let mut best: Vec<usize> = Vec::new();
    for a in disks.iter().filter(|d| d.is_free()) {
        let group: Vec<usize> = (0..disks.len())
            .filter(|i| disks[*i].is_free() && alike(a, &disks[*i]))
            .collect();
        let key = |g: &[usize]| (g.len(), g.first().map_or(0, |i| disks[*i].size));
        if key(&group) > key(&best) {
            best = group;
        }
    }
    best
}

/// The layout for a number of disks.
pub(crate) fn default_layout(disks: usize) -> Layout {
    match disks {
        0 | 1 => Layout::Stripe,
        _ => Layout::Mirror,
    }
}

/// The vdevs. Mirrors have two members, with an odd number of disks the last one three; disks of similar sizes are joined, since a mirror
/// has the size of its smallest member. Errors: a mirror of one disk; a raidz with too few or too many disks.
pub(crate) fn arrange(mut members: Vec<Member>, layout: Layout) -> Result<Vec<Vec<Member>>> {
    match layout {
        Layout::Stripe => Ok(members.into_iter().map(|m| vec![m]).collect()),
        Layout::Raidz1 | Layout::Raidz2 | Layout::Raidz3 => {
            let (word, least) = (layout.word(), layout.parity() + 2);
            if members.len() < least {
                bail!("a {word} needs at least {least} disks: use mirrors")
            }
            if members.len() > MEMBERS_MAX {
                bail!(
                    "a {word} has at most {MEMBERS_MAX} disks: create several with `wirepool pool create`"
                )
            }
            Ok(vec![members])
        }
        Layout::Mirror if members.len() < 2 => {
            bail!("a mirror needs at least two disks: give another one, or use the layout stripe")
        }
        Layout::Mirror => {
            members.sort_by_key(|m| std::cmp::Reverse(m.size));
            let mut vdevs: Vec<Vec<Member>> = members.chunks(2).map(<[Member]>::to_vec).collect();
            if vdevs.last().is_some_and(|v| v.len() == 1)
                && let Some(odd) = vdevs.pop()
                && let Some(last) = vdevs.last_mut()
            {
                last.extend(odd);
            }
            Ok(vdevs)
        }
    }
}

/// Bytes that the vdevs hold, without the space of labels and journal.
pub(crate) fn usable(vdevs: &[Vec<Member>], layout: Layout) -> u64 {
    let of_vdev = |vdev: &Vec<Member>| {
        let smallest = vdev.iter().map(|m| m.size).min().unwrap_or(0);
        let disks = match layout.parity() {
            0 => 1,
            parity => vdev.len().saturating_sub(parity),
        };
        smallest * disks as u64
    };
    vdevs.iter().map(of_vdev).sum()
}

/// Half of the bytes, in whole GiB, or below two of them in whole MiB: the proposed size of a first volume.
pub(crate) fn half(bytes: u64) -> ByteSize {
    let half = bytes / 2;
    let unit = if half >= 2 * GIB { GIB } else { MIB };
    ByteSize(half / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(size: u64, is_rotating: bool, found: &[&str]) -> Disk {
        Disk {
            size,
            is_rotating,
            found: found.iter().map(|f| (*f).to_owned()).collect(),
            ..Disk::default()
        }
    }

    fn members(sizes: &[u64]) -> Vec<Member> {
        let member = |(i, size): (usize, &u64)| Member {
            path: format!("/dev/d{i}").into(),
            size: *size,
            about: String::new(),
            is_unstable: false,
        };
        sizes.iter().enumerate().map(member).collect()
    }

    fn shape(vdevs: &[Vec<Member>]) -> Vec<Vec<u64>> {
        let sizes = |v: &Vec<Member>| v.iter().map(|m| m.size).collect();
        vdevs.iter().map(sizes).collect()
    }

    #[test]
    fn the_largest_group_of_equal_free_disks_is_proposed() {
        let disks = [
            disk(500, false, &["mounted at /"]),
            disk(4000, true, &[]),
            disk(2000, false, &[]),
            disk(2001, false, &[]),
            disk(2000, true, &[]),
            disk(2000, false, &["ext4"]),
        ];
        assert_eq!(propose(&disks), [2, 3]);
        assert_eq!(propose(&disks[..3]), [1], "the larger of single ones");
        assert_eq!(propose(&disks[..1]), [] as [usize; 0]);
    }

    #[test]
    fn mirrors_join_disks_of_similar_size() {
        let vdevs = arrange(members(&[1, 4, 2, 4]), Layout::Mirror).expect("mirrors");
        assert_eq!(shape(&vdevs), [vec![4, 4], vec![2, 1]]);
        assert_eq!(usable(&vdevs, Layout::Mirror), 5);
        let vdevs = arrange(members(&[4, 4, 4, 4, 4]), Layout::Mirror).expect("mirrors");
        assert_eq!(shape(&vdevs), [vec![4, 4], vec![4, 4, 4]]);
        let vdevs = arrange(members(&[4, 4, 4]), Layout::Mirror).expect("mirrors");
        assert_eq!(shape(&vdevs), [vec![4, 4, 4]]);
        assert!(arrange(members(&[4]), Layout::Mirror).is_err());
        let vdevs = arrange(members(&[4, 2]), Layout::Stripe).expect("stripe");
        let space = usable(&vdevs, Layout::Stripe);
        assert_eq!((shape(&vdevs), space), (vec![vec![4], vec![2]], 6));
    }

    #[test]
    fn a_raidz_has_all_disks_and_the_space_of_all_but_its_parity() {
        let vdevs = arrange(members(&[4, 4, 4, 3, 4]), Layout::Raidz2).expect("a raidz");
        assert_eq!(shape(&vdevs), [vec![4, 4, 4, 3, 4]]);
        assert_eq!(usable(&vdevs, Layout::Raidz2), 9);
        assert!(arrange(members(&[4, 4, 4]), Layout::Raidz2).is_err());
        assert!(arrange(members(&[4; 17]), Layout::Raidz2).is_err());
    }

    #[test]
    fn a_first_volume_has_half_of_the_pool() {
        for (bytes, wanted) in [(9 * GIB, "4G"), (512 * MIB, "256M"), (3 * MIB, "1M")] {
            assert_eq!(half(bytes).to_string(), wanted);
        }
    }
}
