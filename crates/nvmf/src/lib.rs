//! wirepool-nvmf
