//! Connect data: parsed names are valid and encode to the same fields.

use nvmf::wire::fabrics::ConnectData;
use nvmf::wire::nqn::{NQN_LEN_MAX, Nqn, NqnField};

pub fn run(input: &[u8]) {
    let Ok(data) = ConnectData::parse(input) else { return };
    let Ok((subnqn, hostnqn)) = data.names() else { return };
    for nqn in [subnqn, hostnqn] {
        let field = NqnField::from(&nqn);
        // a host may leave its name out
        if nqn.is_unnamed() {
            assert_eq!(field.parse_host(), Ok(nqn));
            continue;
        }
        assert!(nqn.as_str().len() <= NQN_LEN_MAX);
        assert_eq!(field.parse().as_ref(), Ok(&nqn));
        assert_eq!(Nqn::new(nqn.as_str()), Ok(nqn));
    }
}
