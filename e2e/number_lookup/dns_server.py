"""ENUM server with PyPI `dnslib`. The last digit of a number selects the response.

Prints its port, and exits at the end of standard input.
"""

import sys

from dnslib import NAPTR, QTYPE, RCODE, RR, TXT
from dnslib.server import BaseResolver, DNSHandler, DNSLogger, DNSServer

TEL = b"E2U+pstn:tel"
SIP = b"E2U+SIP"


def naptr(service, expression, order=10):
    return NAPTR(order, 100, b"u", service, expression)


class NumberDatabase(BaseResolver):
    def resolve(self, request, handler):
        reply = request.reply()
        name = request.q.qname
        last_digit = name.label[0].decode()
        records = {
            "1": [naptr(SIP, rb"!^.*$!sip:+44@unknown;err=1!", order=0)],
            "2": [naptr(TEL, rb"!^(.*)$!tel:\1;npdi;rn=padding-of-record-%02d!" % at) for at in range(30)]
            + [naptr(TEL, rb"!^(.*)$!tel:\1;mcc=234;mnc=10!", order=99)],
            "3": [naptr(SIP, rb"!^.*$!sip:+44@ims.mnc010.mcc234.3gppnetwork.org;ported=1!")],
            "5": [naptr(TEL, rb"!^(.*)$!tel:\\1\;mcc=234\;mnc=10!")],
        }.get(last_digit, [])
        for record in records:
            reply.add_answer(RR(name, QTYPE.NAPTR, rdata=record, ttl=60))
        if last_digit == "1":
            reply.header.rcode = RCODE.REFUSED
            reply.add_ar(RR(name, QTYPE.TXT, rdata=TXT("request-id"), ttl=60))
        if not records:
            reply.header.rcode = RCODE.NXDOMAIN
        return reply


class TruncatingHandler(DNSHandler):
    # Truncates longer UDP responses.
    udplen = 1232


def serve():
    """Serves UDP and TCP on the same free port, and returns it."""
    quiet = DNSLogger("-request,-reply,-truncated,-error,-recv,-send,-data")
    while True:
        common = {"address": "127.0.0.1", "handler": TruncatingHandler, "logger": quiet}
        udp_server = DNSServer(NumberDatabase(), port=0, **common)
        port = udp_server.server.server_address[1]
        try:
            tcp_server = DNSServer(NumberDatabase(), port=port, tcp=True, **common)
        except OSError:
            udp_server.server.server_close()
            continue
        udp_server.start_thread()
        tcp_server.start_thread()
        return port


print(serve(), flush=True)
sys.stdin.read()
