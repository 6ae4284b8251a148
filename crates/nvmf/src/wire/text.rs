//! Text fields of fixed width: space-padded ASCII and NUL-padded strings (Base 1.6, 4.5).
//!
//! Called by the identify and log structures. Reading a peer's text never fails: bytes that are
//! not printable ASCII come out as `?`, so that logs and screens get no control codes.

/// Writes `text` left-justified into `field`, padded with spaces; text that does not fit is cut.
pub fn put_padded(field: &mut [u8], text: &str) {
    put(field, text, b' ');
}

/// Writes `text` into `field`, padded with NULs; text that does not fit is cut.
pub fn put_nul_padded(field: &mut [u8], text: &str) {
    put(field, text, 0);
}

/// The text of a field padded with spaces or NULs.
#[must_use]
pub fn get(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let shown: String = field[..end]
        .iter()
        .map(|&b| {
            if b == b' ' || b.is_ascii_graphic() {
                char::from(b)
            } else {
                '?'
            }
        })
        .collect();
    shown.trim().to_owned()
}

fn put(field: &mut [u8], text: &str, pad: u8) {
    field.fill(pad);
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_cuts_and_reads_back() {
        let mut field = [0xffu8; 8];
        put_padded(&mut field, "abc");
        assert_eq!(&field, b"abc     ");
        assert_eq!(get(&field), "abc");
        put_nul_padded(&mut field, "0123456789");
        assert_eq!(get(&field), "01234567");
        assert_eq!(get(b"a\x1b[2J\0xx"), "a?[2J");
    }
}
