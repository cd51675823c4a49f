package ringtrue.core

import java.net.InetAddress

/** A URL that this library does not open. [reason] is a fixed text without any part of the URL. */
internal class UrlException(val reason: String) : Exception(reason)

/**
 * An absolute `http` or `https` URL without credentials and fragment.
 *
 * The parser is stricter than browsers about the authority, where ambiguity is dangerous, and as lenient about path and
 * query, because operators send unescaped characters there.
 */
internal class HttpUrl private constructor(
    val secure: Boolean,
    /** Lower-case name, or the canonical text of an address; IPv6 without brackets. */
    val host: String,
    /** The address if the host is one. Addresses are never resolved. */
    val address: InetAddress?,
    val port: Int,
    /** Starts with `/`. */
    val path: String,
    /** Without `?`; null if absent. */
    val query: String?,
) {
    val requestTarget: String
        get() = if (query == null) path else "$path?$query"

    val hostHeader: String
        get() {
            val name = if (host.contains(':')) "[$host]" else host
            return if (port == defaultPort(secure)) name else "$name:$port"
        }

    val isLoopbackHost: Boolean
        get() = host == LOCALHOST || address?.isLoopbackAddress == true

    fun hasOriginOf(other: HttpUrl): Boolean = secure == other.secure && host == other.host && port == other.port

    /** The full URL, which may contain secrets. */
    fun expose(): String = (if (secure) "https://" else "http://") + hostHeader + requestTarget

    /** The host alone: paths and queries contain secrets. */
    override fun toString(): String = host

    /** Resolves the value of a `Location` header (RFC 3986, section 5.2). */
    fun resolve(reference: String): HttpUrl {
        val text = prepare(reference)
        if (text.isEmpty()) throw UrlException("the redirect's target is empty")
        if (hasScheme(text)) return parsePrepared(text)
        if (text.startsWith("//")) return parseAfterScheme(secure, text)
        val queryStart = text.indexOf('?')
        val ownPath = if (queryStart < 0) text else text.substring(0, queryStart)
        val ownQuery = if (queryStart < 0) null else text.substring(queryStart + 1)
        return when {
            ownPath.isEmpty() -> HttpUrl(secure, host, address, port, path, ownQuery ?: query)

            ownPath.startsWith("/") -> HttpUrl(secure, host, address, port, removeDotSegments(ownPath), ownQuery)

            else -> {
                val merged = path.substring(0, path.lastIndexOf('/') + 1) + ownPath
                HttpUrl(secure, host, address, port, removeDotSegments(merged), ownQuery)
            }
        }
    }

    /** Form-decoded query parameters; the first value of a repeated name. Null if an escape is malformed. */
    fun queryParameters(): Map<String, String>? {
        val parameters = HashMap<String, String>()
        for (pair in query.orEmpty().split('&')) {
            if (pair.isEmpty()) continue
            val separator = pair.indexOf('=')
            val name = formDecode(if (separator < 0) pair else pair.substring(0, separator)) ?: return null
            val value = formDecode(if (separator < 0) "" else pair.substring(separator + 1)) ?: return null
            if (name !in parameters) parameters[name] = value
        }
        return parameters
    }

    companion object {
        /** Longer URLs do not fit into the request lines that common servers accept. */
        const val MAX_LENGTH = 16_384
        const val LOCALHOST = "localhost"
        private const val MAX_HOST_LENGTH = 253
        private const val MAX_LABEL_LENGTH = 63
        private const val MAX_PORT = 65_535
        private const val HEX_DIGITS = "0123456789ABCDEF"

        /** Printable characters that are not allowed in URLs. */
        private const val ESCAPED = "\"<>\\^`{|}"

        fun parse(text: String): HttpUrl = parsePrepared(prepare(text))

        /** Whether [text] is a host name or an IPv4 address in the form that URLs use. */
        fun isHost(text: String): Boolean = try {
            parseHost(text).first == text
        } catch (refused: UrlException) {
            false
        }

        private fun defaultPort(secure: Boolean): Int = if (secure) 443 else 80

        /** Drops the fragment and surrounding spaces, and escapes characters that a request line must not contain. */
        private fun prepare(text: String): String {
            val trimmed = text.trim(' ', '\t').substringBefore('#')
            if (trimmed.length > MAX_LENGTH) throw UrlException("the URL is too long")
            val escaped = StringBuilder(trimmed.length)
            var index = 0
            while (index < trimmed.length) {
                val character = trimmed[index]
                when {
                    character.code < 0x20 || character.code == 0x7F ->
                        throw UrlException("the URL contains a control character")

                    character == ' ' || character in ESCAPED -> appendEscaped(escaped, character.toString())

                    character.code < 0x7F -> escaped.append(character)

                    else -> {
                        val end = if (character.isHighSurrogate() &&
                            index + 1 < trimmed.length
                        ) {
                            index + 2
                        } else {
                            index + 1
                        }
                        appendEscaped(escaped, trimmed.substring(index, end))
                        index = end - 1
                    }
                }
                index++
            }
            if (escaped.length > MAX_LENGTH) throw UrlException("the URL is too long")
            return escaped.toString()
        }

        private fun appendEscaped(target: StringBuilder, text: String) {
            for (byte in text.toByteArray(Charsets.UTF_8)) appendEscaped(target, byte.toInt() and 0xFF)
        }

        fun appendEscaped(target: StringBuilder, byte: Int) {
            target.append('%').append(HEX_DIGITS[byte shr 4]).append(HEX_DIGITS[byte and 0xF])
        }

        private fun hasScheme(text: String): Boolean {
            val colon = text.indexOf(':')
            if (colon <= 0 || !text[0].isAsciiLetter()) return false
            return (1 until colon).all { text[it].isAsciiLetter() || text[it].isAsciiDigit() || text[it] in "+-." }
        }

        private fun parsePrepared(text: String): HttpUrl {
            if (!hasScheme(text)) throw UrlException("the URL is not absolute")
            val scheme = text.substringBefore(':').lowercase()
            if (scheme != "http" && scheme != "https") throw UrlException("the URL's scheme is neither https nor http")
            return parseAfterScheme(scheme == "https", text.substring(scheme.length + 1))
        }

        private fun parseAfterScheme(secure: Boolean, text: String): HttpUrl {
            if (!text.startsWith("//")) throw UrlException("the URL has no host")
            val end = text.indexOfAny(charArrayOf('/', '?'), 2).let { if (it < 0) text.length else it }
            val authority = text.substring(2, end)
            if (authority.contains('@')) throw UrlException("the URL contains credentials")
            val portStart = authority.indexOf(':', authority.lastIndexOf(']') + 1)
            val (host, address) = parseHost(if (portStart < 0) authority else authority.substring(0, portStart))
            val port = if (portStart < 0) "" else authority.substring(portStart + 1)
            val rest = text.substring(end)
            val path = rest.substringBefore('?')
            return HttpUrl(
                secure,
                host,
                address,
                if (port.isEmpty()) defaultPort(secure) else parsePort(port),
                if (path.isEmpty()) "/" else removeDotSegments(path),
                if (rest.contains('?')) rest.substringAfter('?') else null,
            )
        }

        private fun parsePort(text: String): Int {
            if (text.length > 5 || !text.all { it.isAsciiDigit() }) throw UrlException("the URL's port is invalid")
            val port = text.toInt()
            if (port !in 1..MAX_PORT) throw UrlException("the URL's port is invalid")
            return port
        }

        private fun parseHost(text: String): Pair<String, InetAddress?> {
            if (text.startsWith("[") && text.endsWith("]")) {
                val bytes =
                    IpAddresses.parseIpv6(text.substring(1, text.length - 1))
                        ?: throw UrlException("the URL's IPv6 address is invalid")
                val address = InetAddress.getByAddress(bytes)
                return Pair(address.hostAddress.substringBefore('%'), address)
            }
            val host = text.lowercase()
            val labels = host.split('.')
            if (host.length > MAX_HOST_LENGTH || !labels.all(::isLabel)) throw UrlException("the URL's host is invalid")
            // Some resolvers read `0x7f.1` and `2130706433` as addresses.
            if (!labels.last()[0].isAsciiDigit()) return Pair(host, null)
            val bytes = IpAddresses.parseIpv4(host) ?: throw UrlException("the URL's IPv4 address is invalid")
            return Pair(host, InetAddress.getByAddress(bytes))
        }

        private fun isLabel(label: String): Boolean = label.length in 1..MAX_LABEL_LENGTH &&
            label[0] != '-' &&
            label.all { it in 'a'..'z' || it.isAsciiDigit() || it == '-' || it == '_' }

        /** RFC 3986, section 5.2.4, for a path that starts with `/`. */
        private fun removeDotSegments(path: String): String {
            val segments = path.split('/').drop(1)
            val kept = ArrayList<String>()
            for ((index, segment) in segments.withIndex()) {
                val isLast = index == segments.size - 1
                when (segment) {
                    "." -> if (isLast) kept.add("")

                    ".." -> {
                        if (kept.isNotEmpty()) kept.removeAt(kept.size - 1)
                        if (isLast) kept.add("")
                    }

                    else -> kept.add(segment)
                }
            }
            return kept.joinToString("/", prefix = "/")
        }

        private fun formDecode(text: String): String? {
            val bytes = java.io.ByteArrayOutputStream(text.length)
            var index = 0
            while (index < text.length) {
                val character = text[index]
                if (character == '%') {
                    val high = if (index + 2 < text.length) Character.digit(text[index + 1], 16) else -1
                    val low = if (index + 2 < text.length) Character.digit(text[index + 2], 16) else -1
                    if (high < 0 || low < 0) return null
                    bytes.write(high * 16 + low)
                    index += 3
                } else {
                    bytes.write(if (character == '+') ' '.code else character.code)
                    index++
                }
            }
            return decodeUtf8(bytes.toByteArray())
        }
    }
}

internal fun Char.isAsciiLetter(): Boolean = this in 'a'..'z' || this in 'A'..'Z'

internal fun Char.isAsciiDigit(): Boolean = this in '0'..'9'

internal fun Char.isHexDigit(): Boolean = isAsciiDigit() || this in 'a'..'f' || this in 'A'..'F'

/** Decodes UTF-8 strictly; null if it is malformed. */
internal fun decodeUtf8(bytes: ByteArray): String? = try {
    // A new decoder reports malformed input instead of replacing it.
    Charsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(bytes)).toString()
} catch (malformed: java.nio.charset.CharacterCodingException) {
    null
}
