mod pdu;
mod structures;
