//! Power cuts at every step of creating a pool, writing an uberblock, and changing labels: the old state or the new one.

use io::time::now;
use pool::format::{Birth, PoolState, Uberblock};
use pool::vdev::{AREA_SIZE, OpenOptions, SetupError, open};

use crate::vdev::world::{
    DISK_SIZE, buffer, disk, find, get_all, host, import, machine, make, on, put_all, run,
};

/// More disk steps than any act takes. A run that reaches it was not cut.
const STEPS_MAX: u64 = 2000;

fn next(uberblock: &Uberblock) -> Uberblock {
    Uberblock {
        sequence: uberblock.sequence + 1,
        epoch: Birth(uberblock.epoch.0 + 1),
        time: now().as_nanos(),
        ..*uberblock
    }
}

/// Cuts the power at each step of `cut_at`, until it returns that it was not cut.
fn at_every_step(cut_at: impl Fn(u64) -> bool) {
    let cuts = (0..STEPS_MAX).take_while(|step| cut_at(*step)).count() as u64;
    assert!(cuts > 10 && cuts < STEPS_MAX, "{cuts} cuts");
}

#[test]
fn a_pool_whose_creation_was_interrupted_is_absent_or_complete() {
    at_every_step(|step| {
        run(step, async move {
            let (node, _) = machine(3);
            node.power_cut_after(step);
            let done = on(node, async { make(&[&[0, 1], &[2]]).await.is_ok() }).await;
            node.power_cut();
            node.power_on();
            let whole = on(node, async move {
                let Some(found) = find(&[0, 1, 2]).await else {
                    return false;
                };
                match open(found, OpenOptions::new(host())).await {
                    Ok(opened) => {
                        assert_eq!((opened.uberblock.sequence, opened.newest), (1, 1));
                        put_all(&opened.vdevs, 0..8, 1).await;
                        get_all(&opened.vdevs, 0..8, 1).await;
                        true
                    }
                    Err(SetupError::Unfinished { .. } | SetupError::VdevMissing { .. }) => false,
                    Err(SetupError::MemberMissing { .. }) => false,
                    Err(error) => panic!("step {step}: {error}"),
                }
            });
            let whole = whole.await.expect("it has power");
            assert!(whole || done.is_none(), "step {step}: it said it was made");
            done.is_none()
        })
    });
}

#[test]
fn an_uberblock_that_was_cut_short_is_the_old_one_or_the_new() {
    at_every_step(|step| {
        run(step, async move {
            let (node, _) = machine(3);
            let done = on(node, async move {
                let opened = make(&[&[0, 1], &[2]]).await.expect("made");
                let mut uberblock = opened.uberblock;
                // Enough uberblocks for the ring to wrap.
                for _ in 0..70 {
                    uberblock = next(&uberblock);
                    let write = opened.vdevs.write_uberblock(&uberblock).await;
                    write.expect("written");
                    let _stable = opened.vdevs.flush().await.expect("flushed");
                }
                node.power_cut_after(step);
                let write = opened.vdevs.write_uberblock(&next(&uberblock)).await;
                write.expect("written");
                let _stable = opened.vdevs.flush().await.expect("flushed");
            });
            let done = done.await.is_some();
            node.power_cut();
            node.power_on();
            let again = on(node, async move {
                let opened = import(&[0, 1, 2]).await.expect("it opens");
                let sequence = opened.uberblock.sequence;
                drop(opened);
                let again = import(&[0, 1, 2]).await.expect("it opens");
                assert_eq!(again.uberblock.sequence, sequence, "it was settled");
                sequence
            });
            let sequence = again.await.expect("it has power");
            assert!(sequence == 72 || sequence == 71 && !done, "{sequence}");
            !done
        })
    });
}

#[test]
fn an_export_or_import_that_was_cut_short_leaves_a_pool() {
    at_every_step(|step| {
        run(step, async move {
            let (node, _) = machine(3);
            let done = on(node, async move {
                let opened = make(&[&[0, 1], &[2]]).await.expect("made");
                put_all(&opened.vdevs, 0..8, 1).await;
                let _stable = opened.vdevs.flush().await.expect("flushed");
                opened.vdevs.export().await.expect("exported");
                drop(opened);
                node.power_cut_after(step);
                let options = OpenOptions {
                    name: Some("bank".to_owned()),
                    ..OpenOptions::new(host())
                };
                let found = find(&[0, 1, 2]).await.expect("it is there");
                assert_eq!(found.state, PoolState::Exported);
                let opened = open(found, options).await.expect("it opens");
                opened.vdevs.export().await.expect("exported");
            });
            let done = done.await.is_some();
            node.power_cut();
            node.power_on();
            let name = on(node, async {
                let opened = import(&[0, 1, 2]).await.expect("it opens");
                get_all(&opened.vdevs, 0..8, 1).await;
                opened.vdevs.name()
            });
            let name = name.await.expect("it has power");
            assert!(name == "bank" || name == "tank" && !done, "{name}");
            !done
        })
    });
}

/// Seeds for each cut, so that some of them tear both copies of the half that is being written.
const ROUNDS: u64 = 40;

/// Regression: a cut tore one half of a label's copies; the next update began with the other half and was cut too, so that no
/// copy was left.
#[test]
fn two_cuts_in_a_row_leave_a_label() {
    let end = DISK_SIZE;
    let halves = [[0, end - 2 * AREA_SIZE], [AREA_SIZE, end - AREA_SIZE]];
    // Steps of an opening, up to the end of its label.
    let cuts = || (0..2).flat_map(|torn| (8..26).map(move |cut| (torn, cut)));
    for (round, (torn, cut)) in (0..ROUNDS).flat_map(|n| cuts().map(move |c| (n, c))) {
        run((round * 2 + torn) * 64 + cut, async move {
            let (node, _) = machine(1);
            let life = on(node, async move {
                let opened = make(&[&[0]]).await.expect("made");
                opened.vdevs.export().await.expect("exported");
                drop(opened);
                let disk = disk(0).await;
                for at in halves[torn as usize] {
                    let torn = disk.write(buffer(&[7; 4096]).await, at).await;
                    torn.expect("written");
                }
                let _whole = disk.flush().await.expect("flushed");
            });
            life.await.expect("it ran");
            let life = on(node, async move {
                let found = find(&[0]).await.expect("it is there");
                node.power_cut_after(cut);
                let opened = open(found, OpenOptions::new(host())).await;
                opened.expect("it opens");
            });
            let _cut_short = life.await;
            node.power_cut();
            node.power_on();
            let found = on(node, async { find(&[0]).await.is_some() }).await;
            assert_eq!(found, Some(true), "half {torn}, cut after {cut} steps");
        });
    }
}
