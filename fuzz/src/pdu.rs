//! Common code of the two PDU targets: rules chosen by the input, and the codec's invariants.

use nvmf::wire::pdu::{
    Decoded, Digests, Encoder, HEADER_LEN_MAX, Pda, Pdu, Phase, Receiver, RxRules, decode,
};

/// Decodes the input after its first two bytes, which choose the rules. Checks that lengths are the announced ones,
/// that a prefix never decodes, and that a decoded PDU encodes again.
pub fn check(input: &[u8], receiver: Receiver) {
    let Some((&[choice, pda], bytes)) = input.split_first_chunk::<2>() else { return };
    let rules = RxRules {
        receiver,
        phase: if choice & 4 != 0 { Phase::Connecting } else { Phase::Established },
        digests: Digests::from_bits(choice & 3),
        pda: Pda::new(pda % 32).expect("below 32"),
        capsule_data_max: 8192,
        data_max: 65536,
    };
    let frame = match decode(bytes, &rules) {
        Ok(Decoded::Frame(frame)) => frame,
        Ok(Decoded::NeedMore(more)) => return assert!(more > 0),
        Err(_) => return,
    };
    assert!(frame.data_offset <= bytes.len());
    assert_eq!(frame.pdu_len(), u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes")) as usize);
    assert!(frame.data_len <= rules.data_max);
    assert!(matches!(decode(&bytes[..frame.data_offset - 1], &rules), Ok(Decoded::NeedMore(1))));
    encode_again(&frame.pdu, frame.data_len, &rules);
}

fn encode_again(pdu: &Pdu, data_len: u32, rules: &RxRules) {
    let encoder = Encoder { digests: rules.digests, pda: rules.pda };
    let mut out = [0; HEADER_LEN_MAX];
    let len = match pdu {
        Pdu::CapsuleCmd(sqe) => encoder.capsule_cmd(sqe, data_len, &mut out),
        Pdu::CapsuleResp(cqe) => encoder.capsule_resp(cqe, &mut out),
        Pdu::H2cData(data) => encoder.h2c_data(data, data_len, &mut out),
        Pdu::C2hData(data) => encoder.c2h_data(data, data_len, &mut out),
        Pdu::R2t(r2t) => encoder.r2t(r2t, &mut out),
        Pdu::IcReq(_) | Pdu::IcResp(_) | Pdu::H2cTermReq(_) | Pdu::C2hTermReq(_) => return,
    };
    let Ok(Decoded::Frame(again)) = decode(&out[..len], rules) else { panic!("encoded bytes do not decode") };
    assert_eq!((again.pdu, again.data_len), (*pdu, data_len));
}
