package ringtrue.core

import java.io.ByteArrayOutputStream
import java.io.InputStream

/** A response that is not acceptable HTTP/1.1. [reason] is a fixed text without any part of the response. */
internal class ProtocolException(val reason: String) : Exception(reason)

/** Status and header fields of a response. */
internal class ResponseHead(val status: Int, private val fields: List<Pair<String, String>>) {
    /** All values of a field, by its lower-case name. Characters stand for bytes. */
    fun values(name: String): List<String> = fields.filter { it.first == name }.map { it.second }

    /** The value of a field that must not occur with different values; null if it is absent. */
    fun singleValue(name: String): String? {
        val values = values(name).distinct()
        if (values.size > 1) throw ProtocolException("a header field is repeated with different values")
        return values.firstOrNull()
    }

    val mediaType: String?
        get() = values("content-type").lastOrNull()?.substringBefore(';')?.trim(' ', '\t')?.lowercase()
}

/** Reads one HTTP/1.1 response (RFC 9112). Every length that the server controls is bounded. */
internal class ResponseReader(private val input: InputStream) {
    private var headBudget = MAX_HEAD_BYTES

    /** Reads the final response's head and skips interim ones. */
    fun readHead(): ResponseHead {
        repeat(MAX_INTERIM_RESPONSES + 1) {
            val head = readOneHead()
            if (head.status == 101) throw ProtocolException("the server switched protocols")
            if (head.status >= 200) return head
        }
        throw ProtocolException("too many interim responses")
    }

    private fun readOneHead(): ResponseHead {
        val status = parseStatusLine(readLine())
        val fields = ArrayList<Pair<String, String>>()
        while (true) {
            val line = readLine()
            if (line.isEmpty()) return ResponseHead(status, fields)
            if (line[0] == ' ' || line[0] == '\t') {
                // Obsolete line folding: user agents replace it by a space.
                val last = fields.removeLastOrThrow()
                fields.add(Pair(last.first, (last.second + " " + line.trim(' ', '\t')).trim(' ')))
                continue
            }
            if (fields.size == MAX_FIELDS) throw ProtocolException("too many header fields")
            val colon = line.indexOf(':')
            if (colon <= 0) throw ProtocolException("a header field has no name")
            val name = line.substring(0, colon)
            if (!name.all(::isTokenCharacter)) throw ProtocolException("a header field's name is invalid")
            fields.add(Pair(name.lowercase(), line.substring(colon + 1).trim(' ', '\t')))
        }
    }

    private fun MutableList<Pair<String, String>>.removeLastOrThrow(): Pair<String, String> {
        if (isEmpty()) throw ProtocolException("the header starts with a folded line")
        return removeAt(size - 1)
    }

    private fun parseStatusLine(line: String): Int {
        val isWellFormed =
            line.length >= 12 &&
                line.startsWith("HTTP/1.") &&
                line[7].isAsciiDigit() &&
                line[8] == ' ' &&
                (9..11).all { line[it].isAsciiDigit() } &&
                (line.length == 12 || line[12] == ' ')
        if (!isWellFormed) throw ProtocolException("the status line is invalid")
        val status = line.substring(9, 12).toInt()
        if (status !in 100..599) throw ProtocolException("the status is invalid")
        return status
    }

    /** Reads the body, which ends as the head says or with the connection. */
    fun readBody(head: ResponseHead): ByteArray {
        if (head.status == 204 || head.status == 304) return ByteArray(0)
        val encodings = head.values("content-encoding").filter { it.lowercase() != "identity" }
        if (encodings.isNotEmpty()) throw ProtocolException("the body has a content encoding")
        val transferEncodings = head.values("transfer-encoding")
        val length = head.singleValue("content-length")
        return when {
            transferEncodings.isEmpty() && length == null -> readToEnd()

            transferEncodings.isEmpty() -> readExactly(parseLength(length!!))

            // Disagreeing lengths are a sign of response smuggling.
            length != null -> throw ProtocolException("the body has two lengths")

            transferEncodings.size == 1 && transferEncodings[0].lowercase() == "chunked" -> readChunks()

            else -> throw ProtocolException("the transfer encoding is not chunked")
        }
    }

    private fun parseLength(text: String): Int {
        if (text.isEmpty() || !text.all { it.isAsciiDigit() }) throw ProtocolException("the content length is invalid")
        val significant = text.trimStart('0')
        if (significant.length > 9) throw ProtocolException("the body is too large")
        return checkBodySize(if (significant.isEmpty()) 0 else significant.toInt())
    }

    private fun checkBodySize(size: Int): Int {
        if (size > MAX_BODY_BYTES) throw ProtocolException("the body is too large")
        return size
    }

    private fun readToEnd(): ByteArray {
        val body = ByteArrayOutputStream()
        val buffer = ByteArray(BUFFER_BYTES)
        while (true) {
            val count = input.read(buffer)
            if (count < 0) return body.toByteArray()
            checkBodySize(body.size() + count)
            body.write(buffer, 0, count)
        }
    }

    private fun readExactly(length: Int): ByteArray {
        val bytes = ByteArray(length)
        var filled = 0
        while (filled < length) {
            val count = input.read(bytes, filled, length - filled)
            if (count < 0) throw ProtocolException("the body is truncated")
            filled += count
        }
        return bytes
    }

    private fun readChunks(): ByteArray {
        val body = ByteArrayOutputStream()
        while (true) {
            val size = parseChunkSize(readLine())
            if (size == 0) break
            checkBodySize(body.size() + size)
            body.write(readExactly(size))
            if (readLine().isNotEmpty()) throw ProtocolException("a chunk is longer than its size")
        }
        // Trailer fields, which count towards the head's limit.
        while (readLine().isNotEmpty()) continue
        return body.toByteArray()
    }

    private fun parseChunkSize(line: String): Int {
        val digits = line.substringBefore(';').trim(' ', '\t')
        if (digits.isEmpty() || !digits.all(Char::isHexDigit)) {
            throw ProtocolException("a chunk's size is invalid")
        }
        val significant = digits.trimStart('0')
        if (significant.length > 7) throw ProtocolException("the body is too large")
        return checkBodySize(if (significant.isEmpty()) 0 else significant.toInt(16))
    }

    /** Reads a line that ends with CRLF or, as RFC 9112, section 2.2 permits, with LF. */
    private fun readLine(): String {
        val line = StringBuilder()
        while (true) {
            val byte = input.read()
            if (byte < 0) throw ProtocolException("the connection closed before the response was complete")
            if (--headBudget < 0) throw ProtocolException("the header is too large")
            if (byte == '\n'.code) break
            line.append(byte.toChar())
        }
        if (line.isNotEmpty() && line[line.length - 1] == '\r') line.setLength(line.length - 1)
        for (character in line) {
            val isControl = (character.code < 0x20 && character != '\t') || character.code == 0x7F
            if (isControl) throw ProtocolException("the header contains a control character")
        }
        return line.toString()
    }

    private fun isTokenCharacter(character: Char): Boolean =
        character.isAsciiLetter() || character.isAsciiDigit() || character in "!#$%&'*+-.^_`|~"

    companion object {
        /** For all heads, chunk sizes and trailers of a response together. */
        const val MAX_HEAD_BYTES = 65_536
        const val MAX_FIELDS = 200
        const val MAX_BODY_BYTES = 65_536
        const val MAX_INTERIM_RESPONSES = 10
        private const val BUFFER_BYTES = 4_096
    }
}
