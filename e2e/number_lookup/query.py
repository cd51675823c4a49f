"""Queries NAPTR records of an ENUM server with PyPI `dnslib`: python query.py HOST:PORT NUMBER…

Prints the responses for each number over UDP and TCP as JSON.
"""

import json
import sys

from dnslib import DNSRecord, EDNS0, QTYPE, RCODE


def query(host, port, number, tcp):
    name = ".".join(reversed(number.removeprefix("+"))) + ".e164.arpa"
    question = DNSRecord.question(name, "NAPTR")
    question.add_ar(EDNS0(udp_len=1232))
    reply = DNSRecord.parse(question.send(host, port, tcp=tcp, timeout=60))
    assert reply.header.id == question.header.id and reply.q == question.q
    assert all(record.rname == question.q.qname for record in reply.rr)
    assert [QTYPE[record.rtype] for record in reply.ar] == ["OPT"]
    return {
        "code": RCODE[reply.header.rcode],
        "cut": bool(reply.header.tc),
        "zone": [str(record.rname) for record in reply.auth if QTYPE[record.rtype] == "SOA"],
        "records": [
            [text.decode() for text in (record.rdata.flags, record.rdata.service, record.rdata.regexp)]
            for record in reply.rr
        ],
    }


host, port = sys.argv[1].rsplit(":", 1)
transports = {"udp": False, "tcp": True}
json.dump({name: [query(host, int(port), number, tcp) for number in sys.argv[2:]] for name, tcp in transports.items()}, sys.stdout)
