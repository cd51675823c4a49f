package ringtrue.core

/** Reads a JSON object (RFC 8259) and keeps its own members; everything below is only checked for its syntax. */
internal class JsonObject private constructor(private val text: String) {
    private val strings = HashMap<String, String>()
    private val members = HashMap<String, String>()
    private var position = 0

    fun string(name: String): String? = strings[name]

    /** The member's JSON, as it was written. */
    fun json(name: String): String? = members[name]

    private fun parseDocument() {
        skipSpace()
        parseObject(1, true)
        skipSpace()
        if (position != text.length) fail()
    }

    private fun parseValue(depth: Int) {
        when (peek()) {
            '{' -> parseObject(depth + 1, false)
            '[' -> parseArray(depth + 1)
            '"' -> parseString()
            't' -> expectWord("true")
            'f' -> expectWord("false")
            'n' -> expectWord("null")
            else -> parseNumber()
        }
    }

    private fun parseObject(depth: Int, keepMembers: Boolean) {
        // Nesting uses the thread's stack.
        if (depth > MAX_DEPTH) fail()
        expect('{')
        skipSpace()
        if (skip('}')) return
        val names = HashSet<String>()
        do {
            skipSpace()
            val name = parseString()
            // Parsers disagree about which of two members counts.
            if (!names.add(name)) fail()
            skipSpace()
            expect(':')
            skipSpace()
            val start = position
            if (keepMembers && peek() == '"') strings[name] = parseString() else parseValue(depth)
            if (keepMembers) members[name] = text.substring(start, position)
            skipSpace()
        } while (skip(','))
        expect('}')
    }

    private fun parseArray(depth: Int) {
        if (depth > MAX_DEPTH) fail()
        expect('[')
        skipSpace()
        if (skip(']')) return
        do {
            skipSpace()
            parseValue(depth)
            skipSpace()
        } while (skip(','))
        expect(']')
    }

    private fun parseString(): String {
        expect('"')
        val value = StringBuilder()
        while (true) {
            val character = next()
            when {
                character == '"' -> return value.toString()
                character == '\\' -> value.append(parseEscape())
                character.code < 0x20 -> fail()
                else -> value.append(character)
            }
        }
    }

    private fun parseEscape(): Char = when (val character = next()) {
        '"', '\\', '/' -> character

        'b' -> '\b'

        'f' -> '\u000C'

        'n' -> '\n'

        'r' -> '\r'

        't' -> '\t'

        'u' -> {
            var code = 0
            repeat(4) {
                val digit = next()
                val value = if (digit.code < 0x80) Character.digit(digit, 16) else -1
                if (value < 0) fail()
                code = code * 16 + value
            }
            code.toChar()
        }

        else -> fail()
    }

    private fun parseNumber() {
        skip('-')
        if (!skip('0')) parseDigits()
        if (skip('.')) parseDigits()
        if (skip('e') || skip('E')) {
            if (!skip('+')) skip('-')
            parseDigits()
        }
    }

    private fun parseDigits() {
        if (!peek().isAsciiDigit()) fail()
        while (peek().isAsciiDigit()) position++
    }

    private fun expectWord(word: String) {
        if (!text.startsWith(word, position)) fail()
        position += word.length
    }

    private fun skipSpace() {
        while (position < text.length && text[position] in " \t\n\r") position++
    }

    /** NUL at the end of the text: no caller accepts it. */
    private fun peek(): Char = if (position < text.length) text[position] else '\u0000'

    private fun next(): Char {
        if (position == text.length) fail()
        return text[position++]
    }

    private fun skip(character: Char): Boolean {
        if (peek() != character || position == text.length) return false
        position++
        return true
    }

    private fun expect(character: Char) {
        if (!skip(character)) fail()
    }

    private fun fail(): Nothing = throw ProtocolException("the body is not a JSON object")

    companion object {
        private const val MAX_DEPTH = 32

        fun parse(bytes: ByteArray): JsonObject {
            val text = decodeUtf8(bytes) ?: throw ProtocolException("the body is not UTF-8")
            return JsonObject(text).apply { parseDocument() }
        }
    }
}
