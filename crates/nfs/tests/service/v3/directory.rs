//! READDIR and READDIRPLUS.

use super::client::{Attributes, with_mount};
use crate::client::Client;
use nfs::v3::wire::{Arguments, Status};

struct Entry {
    number: u64,
    name: Vec<u8>,
    cookie: u64,
    plus: Option<(Option<Attributes>, Vec<u8>)>,
}

/// One part of a listing, and whether the directory ends with it.
async fn part(
    client: &mut Client,
    arguments: &Arguments<'_>,
) -> Result<(Vec<Entry>, bool), Status> {
    let record = client.encoded_v3(arguments);
    let (_, bytes) = client.reply_to(record).await;
    let len = bytes.len();
    let mut results = super::client::Results::new(bytes);
    if results.status != Status::Ok {
        return Err(results.status);
    }
    let (is_plus, bytes_max) = match arguments {
        Arguments::ReadDir { bytes_max, .. } => (false, *bytes_max),
        Arguments::ReadDirPlus { bytes_max, .. } => (true, *bytes_max),
        other => panic!("{other:?} lists nothing"),
    };
    assert!(
        len <= bytes_max as usize + 4,
        "at most the bytes that were asked for, and the status"
    );
    assert_eq!(results.after().map(|of| of.kind), Some(2));
    assert_eq!(results.verifier(), [0; 8]);
    let mut entries = Vec::new();
    while results.bool() {
        let (number, name, cookie) = (results.u64(), results.opaque(), results.u64());
        let plus = is_plus.then(|| {
            let of = results.after();
            assert!(results.bool());
            (of, results.opaque())
        });
        entries.push(Entry {
            number,
            name,
            cookie,
            plus,
        });
    }
    let is_end = results.bool();
    results.ended();
    Ok((entries, is_end))
}

#[test]
fn a_listing_in_parts_has_every_name_once() {
    with_mount(|_fixture, mut client, root| async move {
        let mut expected = vec![b".".to_vec(), b"..".to_vec()];
        for number in 0..300 {
            let name = format!("name-{number:03}");
            client.create_v3(&root, &name).await;
            expected.push(name.into_bytes());
        }
        for is_plus in [false, true] {
            let (mut names, mut cookie, mut parts) = (Vec::new(), 0, 0);
            loop {
                let (verifier, bytes_max, directory) = ([0; 8], 2000, &root[..]);
                let arguments = match is_plus {
                    false => Arguments::ReadDir {
                        directory,
                        cookie,
                        verifier,
                        bytes_max,
                    },
                    true => Arguments::ReadDirPlus {
                        directory,
                        cookie,
                        verifier,
                        names_max: 400,
                        bytes_max,
                    },
                };
                let (entries, is_end) = part(&mut client, &arguments).await.expect("a part");
                parts += 1;
                for entry in entries {
                    cookie = entry.cookie;
                    if let Some((of, handle)) = entry.plus {
                        let of = of.expect("attributes");
                        assert_eq!(of.number, entry.number);
                        assert_eq!(client.attributes_v3(&handle).await, of);
                    }
                    names.push(entry.name);
                }
                if is_end {
                    break;
                }
            }
            assert!(parts > 4);
            names.sort();
            assert_eq!(names, expected);
        }
    });
}

#[test]
fn limits_and_cookies_of_a_listing_are_checked() {
    with_mount(|_fixture, mut client, root| async move {
        let file = client.create_v3(&root, "f").await;
        let list = |directory, cookie, verifier, bytes_max| Arguments::ReadDir {
            directory,
            cookie,
            verifier,
            bytes_max,
        };
        for (arguments, status) in [
            (list(&root[..], 0, [0; 8], 20), Status::Toosmall),
            (list(&root[..], 0, [0; 8], 110), Status::Toosmall),
            (list(&root[..], 5, [1; 8], 4096), Status::BadCookie),
            (list(&file[..], 0, [0; 8], 4096), Status::Notdir),
        ] {
            assert_eq!(part(&mut client, &arguments).await.err(), Some(status));
        }
        let huge = list(&root[..], 0, [9; 8], u32::MAX);
        assert_eq!(
            part(&mut client, &huge).await.map(|(all, _)| all.len()),
            Ok(3)
        );
        // A wish for fewer names than one is none.
        let plus = Arguments::ReadDirPlus {
            directory: &root,
            cookie: 0,
            verifier: [0; 8],
            names_max: 1,
            bytes_max: 4096,
        };
        assert_eq!(
            part(&mut client, &plus).await.map(|(all, _)| all.len()),
            Ok(1)
        );
    });
}
