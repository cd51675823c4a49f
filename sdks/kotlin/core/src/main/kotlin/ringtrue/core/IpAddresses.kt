package ringtrue.core

import java.net.Inet4Address
import java.net.InetAddress

/** Parses literal addresses without a resolver, and classifies addresses. */
internal object IpAddresses {
    private const val IPV6_BYTES = 16

    /** Well-known prefix of NAT64 (RFC 6052), which many mobile networks use. */
    private val NAT64_PREFIX = byteArrayOf(0, 0x64, 0xFF.toByte(), 0x9B.toByte(), 0, 0, 0, 0, 0, 0, 0, 0)

    /** Four decimal numbers without leading zeros; null for everything else. */
    fun parseIpv4(text: String): ByteArray? {
        val parts = text.split('.')
        if (parts.size != 4) return null
        val bytes = ByteArray(4)
        for ((index, part) in parts.withIndex()) {
            if (part.isEmpty() || part.length > 3 || !part.all { it.isAsciiDigit() }) return null
            if (part.length > 1 && part[0] == '0') return null
            val value = part.toInt()
            if (value > 255) return null
            bytes[index] = value.toByte()
        }
        return bytes
    }

    /** RFC 4291, section 2.2, without a zone; null for everything else. */
    fun parseIpv6(text: String): ByteArray? {
        val gap = text.indexOf("::")
        if (gap != text.lastIndexOf("::")) return null
        val head = parseGroups(if (gap < 0) text else text.substring(0, gap), gap < 0) ?: return null
        val tail = parseGroups(if (gap < 0) "" else text.substring(gap + 2), true) ?: return null
        val length = head.size + tail.size
        if (if (gap < 0) length != IPV6_BYTES else length > IPV6_BYTES - 2) return null
        return head + ByteArray(IPV6_BYTES - length) + tail
    }

    private fun parseGroups(text: String, mayEndWithIpv4: Boolean): ByteArray? {
        if (text.isEmpty()) return ByteArray(0)
        val groups = text.split(':')
        if (groups.size > 8) return null
        var bytes = ByteArray(0)
        for ((index, group) in groups.withIndex()) {
            bytes +=
                if (group.contains('.')) {
                    if (!mayEndWithIpv4 || index != groups.size - 1) return null
                    parseIpv4(group) ?: return null
                } else {
                    if (group.length !in 1..4 || !group.all(Char::isHexDigit)) return null
                    val value = group.toInt(16)
                    byteArrayOf((value shr 8).toByte(), value.toByte())
                }
        }
        return bytes
    }

    /**
     * Whether a check may connect to [address]. Private addresses are permitted: operators serve header enrichment from
     * inside their networks. Loopback and the rest lead to the phone itself or to no single host.
     */
    fun isPermitted(address: InetAddress, allowLoopback: Boolean): Boolean {
        val target = embeddedIpv4(address) ?: address
        if (target.isLoopbackAddress) return allowLoopback
        return !target.isAnyLocalAddress && !target.isLinkLocalAddress && !target.isMulticastAddress
    }

    /** The IPv4 address inside a NAT64 or IPv4-compatible IPv6 address. */
    private fun embeddedIpv4(address: InetAddress): InetAddress? {
        val bytes = address.address
        if (address is Inet4Address || bytes.size != IPV6_BYTES) return null
        val prefix = bytes.copyOf(12)
        // `::` and `::1` are addresses of their own.
        val isCompatible = prefix.all { it == 0.toByte() } && (bytes[12] != 0.toByte() || bytes[13] != 0.toByte())
        if (!isCompatible && !prefix.contentEquals(NAT64_PREFIX)) return null
        return InetAddress.getByAddress(bytes.copyOfRange(12, IPV6_BYTES))
    }
}
