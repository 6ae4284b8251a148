//! Tests of the table of properties, and of the encoding of own values.

use super::*;

#[test]
fn the_table_is_in_the_order_of_its_numbers_and_each_text_is_its_values() {
    assert!(TABLE.is_sorted_by(|a, b| a.number < b.number && a.property < b.property));
    for property in DatasetProperty::all() {
        assert_eq!(DatasetProperty::named(property.name()), Some(property));
        for value in 0..=256 {
            let text = property.show(value);
            let parsed = text.as_deref().map(|text| property.parse(text));
            assert_eq!(parsed, text.as_ref().map(|_| Some(value)), "{property:?}");
        }
        assert!(property.show(property.default()).is_some());
        assert_eq!(property.parse("nonsense"), None);
    }
}

#[test]
fn encoded_settings_decode_and_other_bytes_are_refused() {
    let mut settings = Settings::default();
    settings.put_local(DatasetProperty::Compression, 1);
    let received = Setting {
        value: 2,
        is_received: true,
    };
    settings.put(DatasetProperty::Sync, Some(received));
    let shared = |text: &str| TextSetting {
        text: text.to_owned(),
        is_received: false,
    };
    settings.put_text(
        TextProperty::Sharenfs,
        Some(shared("rw=@10.0.0.0/24,ro=@lab")),
    );
    let bytes = settings.encode();
    assert_eq!(Settings::decode(&bytes), Ok(settings.clone()));
    assert_eq!(Settings::decode(&[]), Ok(Settings::default()));
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 0x80;
        if let Ok(decoded) = Settings::decode(&other) {
            assert_eq!(decoded.encode(), other, "byte {at}");
            assert_ne!(decoded, settings, "byte {at}");
        }
    }
    let twice = [&bytes[..16], &bytes[..16]].concat();
    let swapped = [&bytes[16..], &bytes[..16]].concat();
    let before = [&bytes[32..], &bytes[..16]].concat();
    let short = &bytes[..bytes.len() - 16];
    for wrong in [&bytes[1..], &twice, &swapped, &before, short] {
        assert!(Settings::decode(wrong).is_err(), "{wrong:?}");
    }
    for text in ["", "a\nb", &"x".repeat(TEXT_SIZE_MAX + 1)] {
        assert!(!TextProperty::is_text(text), "{text:?}");
    }
    let longest = shared(&"x".repeat(TEXT_SIZE_MAX));
    settings.put_text(TextProperty::Sharenfs, Some(longest));
    assert_eq!(Settings::decode(&settings.encode()), Ok(settings));
}
