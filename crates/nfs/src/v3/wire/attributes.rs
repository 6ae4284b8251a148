//! Attributes (RFC 1813, sections 2.5 and 2.6): `fattr3`, `sattr3`, `post_op_attr`, `wcc_data`.
//!
//! **Invariants**: times are unsigned numbers of 32 bits: earlier and later ones become the first and the last that exist.

use crate::attribute::{device_parts, kind_number};
use crate::xdr::{Codec, Reader, Result, Writer, Xdr, XdrError};
use backend::file::{Attributes, Change, SetAttributes, SetTime, Timestamp};

/// Bits of a mode; others are ignored.
const MODE_BITS: u32 = 0o7777;

/// Writes a time.
pub fn encode_time(time: Timestamp, writer: &mut Writer) {
    let (seconds, nanoseconds) = time.parts();
    match u32::try_from(seconds) {
        Ok(seconds) => {
            writer.u32(seconds);
            writer.u32(nanoseconds);
        }
        Err(_) if seconds < 0 => writer.u64(0),
        Err(_) => {
            writer.u32(u32::MAX);
            writer.u32(0);
        }
    }
}

/// Reads a time. Errors: `Value` for a billion of nanoseconds or more.
pub fn decode_time(reader: &mut Reader<'_>) -> Result<Timestamp> {
    let seconds = reader.u32()?;
    match reader.u32()? {
        nanoseconds @ 0..1_000_000_000 => Ok(Timestamp::from_parts(seconds.into(), nanoseconds)),
        _ => Err(XdrError::Value),
    }
}

/// Writes `fattr3`. `fsid`: the number of the file system.
pub fn encode(of: &Attributes, fsid: u64, writer: &mut Writer) {
    writer.u32(kind_number(of.kind));
    writer.u32(of.mode.into());
    writer.u32(of.links);
    writer.u32(of.uid);
    writer.u32(of.gid);
    writer.u64(of.size);
    writer.u64(of.used);
    let (major, minor) = device_parts(of.device);
    writer.u32(major);
    writer.u32(minor);
    writer.u64(fsid);
    writer.u64(of.handle.object);
    encode_time(of.accessed, writer);
    encode_time(of.modified, writer);
    encode_time(of.changed, writer);
}

/// Writes `post_op_attr`.
pub fn encode_after(of: Option<&Attributes>, fsid: u64, writer: &mut Writer) {
    writer.bool(of.is_some());
    if let Some(of) = of {
        encode(of, fsid, writer);
    }
}

/// Writes `wcc_data` of a change.
pub fn encode_change(change: &Change, fsid: u64, writer: &mut Writer) {
    writer.bool(true);
    writer.u64(change.before.size);
    encode_time(change.before.modified, writer);
    encode_time(change.before.changed, writer);
    encode_after(Some(&change.after), fsid, writer);
}

/// Writes `wcc_data` of an object that was not changed, or whose state before is not known.
pub fn encode_unchanged(of: Option<&Attributes>, fsid: u64, writer: &mut Writer) {
    writer.bool(false);
    encode_after(of, fsid, writer);
}

fn decode_set_time(reader: &mut Reader<'_>) -> Result<SetTime> {
    match reader.u32()? {
        0 => Ok(SetTime::Keep),
        1 => Ok(SetTime::Now),
        2 => decode_time(reader).map(SetTime::To),
        _ => Err(XdrError::Value),
    }
}

fn encode_set_time(time: SetTime, writer: &mut Writer) {
    match time {
        SetTime::Keep => writer.u32(0),
        SetTime::Now => writer.u32(1),
        SetTime::To(time) | SetTime::Held(time) => {
            writer.u32(2);
            encode_time(time, writer);
        }
    }
}

/// `sattr3`. A time of creation and a guard are no part of it.
#[derive(Debug)]
pub struct Set;

impl<'a> Codec<'a, SetAttributes> for Set {
    fn decode(reader: &mut Reader<'a>) -> Result<SetAttributes> {
        let mode: Option<u32> = Xdr::decode(reader)?;
        Ok(SetAttributes {
            mode: mode.map(|mode| (mode & MODE_BITS) as u16),
            uid: Xdr::decode(reader)?,
            gid: Xdr::decode(reader)?,
            size: Xdr::decode(reader)?,
            accessed: decode_set_time(reader)?,
            modified: decode_set_time(reader)?,
            created: None,
            guard: None,
        })
    }

    fn encode(set: &SetAttributes, writer: &mut Writer) {
        set.mode.map(u32::from).encode(writer);
        set.uid.encode(writer);
        set.gid.encode(writer);
        set.size.encode(writer);
        encode_set_time(set.accessed, writer);
        encode_set_time(set.modified, writer);
    }
}

/// `sattrguard3`.
#[derive(Debug)]
pub struct Guard;

impl Codec<'_, Option<Timestamp>> for Guard {
    fn decode(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
        match reader.bool()? {
            true => decode_time(reader).map(Some),
            false => Ok(None),
        }
    }

    fn encode(guard: &Option<Timestamp>, writer: &mut Writer) {
        writer.bool(guard.is_some());
        if let Some(guard) = guard {
            encode_time(*guard, writer);
        }
    }
}
