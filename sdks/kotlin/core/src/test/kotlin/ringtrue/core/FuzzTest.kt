package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.ByteArrayInputStream
import java.util.Random

/** Randomly changed input with fixed seeds: parsers reject it or return something sound, and throw nothing else. */
class FuzzTest {
    private val responses = listOf(
        "HTTP/1.1 302 Found\r\nLocation: https://operator.test/a?b=c\r\nSet-Cookie: a=b; Path=/; Domain=x.test\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"code\":\"abc\"}",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
            "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "HTTP/1.0 410 Gone\nContent-Type: application/problem+json\nX: a\n b\n\n{\"error_code\":\"check_expired\"}",
    )
    private val documents = listOf(
        """{"check_id":"c","code":"abc","nested":{"a":[1,-2.5e+3,true,false,null,"\u00e9\n"]},"reference_id":"x"}""",
        """ { "error" : "mno_timeout" , "list" : [ ] , "object" : { } , "n" : 0 } """,
    )
    private val urls = listOf(
        "https://user@operator.test:8443/a/../b/./c?d=e&f=%20#g",
        "//[2001:db8::1]:80/?x",
        "../x/y;z?q",
        "?a=b+c&d=%C3%A9",
        "http://127.0.0.1/",
        "HTTPS://Example.COM",
    )
    private val cookies = listOf(
        "name=value; Domain=operator.test; Path=/a; Secure; HttpOnly; SameSite=None; Max-Age=60",
        "__Host-x=\"y\"; Expires=Sun, 06 Nov 1994 08:49:37 GMT; Path=/",
    )

    private class Mutator(seed: Long) {
        private val random = Random(seed)

        fun <T> pick(items: List<T>): T = items[random.nextInt(items.size)]

        fun mutate(text: String): String {
            val result = StringBuilder(text)
            repeat(1 + random.nextInt(6)) {
                val at = if (result.isEmpty()) 0 else random.nextInt(result.length)
                val end = minOf(result.length, at + random.nextInt(12))
                when (random.nextInt(7)) {
                    0 -> result.delete(at, end)

                    1 -> result.insert(at, result.substring(at, end))

                    2 -> result.setLength(at)

                    3 -> result.insert(at, random.nextInt(256).toChar())

                    4 -> if (at < result.length) result.setCharAt(at, random.nextInt(256).toChar())

                    5 -> result.insert(at, pick(TOKENS))

                    else ->
                        if (at <
                            result.length
                        ) {
                            result.setCharAt(at, (result[at].code xor (1 shl random.nextInt(7))).toChar())
                        }
                }
            }
            return result.toString()
        }
    }

    private fun forEachMutation(corpus: List<String>, action: (String) -> Unit) {
        for (seed in 1L..ROUNDS) {
            val mutator = Mutator(seed)
            val input = mutator.mutate(mutator.pick(corpus))
            try {
                action(input)
            } catch (unexpected: Throwable) {
                throw AssertionError("seed $seed: $unexpected", unexpected)
            }
        }
    }

    @Test
    fun responsesAreReadOrRejected() = forEachMutation(responses) { input ->
        try {
            val reader = ResponseReader(ByteArrayInputStream(input.toByteArray(Charsets.ISO_8859_1)))
            val head = reader.readHead()
            assertTrue(head.status in 200..599)
            assertTrue(reader.readBody(head).size <= ResponseReader.MAX_BODY_BYTES)
        } catch (rejected: ProtocolException) {
            assertTrue(rejected.reason.isNotEmpty())
        }
    }

    @Test
    fun randomBytesAreRejected() {
        val random = Random(7)
        repeat(2_000) {
            val bytes = ByteArray(random.nextInt(300)).also(random::nextBytes)
            try {
                ResponseReader(ByteArrayInputStream(bytes)).readHead()
                throw AssertionError("round $it was accepted")
            } catch (rejected: ProtocolException) {
                assertTrue(rejected.reason.isNotEmpty())
            }
        }
    }

    @Test
    fun jsonIsReadOrRejected() = forEachMutation(documents) { input ->
        try {
            JsonObject.parse(input.toByteArray(Charsets.UTF_8))
        } catch (rejected: ProtocolException) {
            assertTrue(rejected.reason.isNotEmpty())
        }
    }

    @Test
    fun writtenJsonIsReadBack() {
        for (seed in 1L..2_000) {
            val random = Random(seed)
            val members = (0..random.nextInt(6)).associate { "m$it" to randomText(random) }
            val json = members.entries.joinToString(",", "{", "}") { "${quote(it.key)}: ${quote(it.value)}" }
            val parsed = JsonObject.parse(json.toByteArray(Charsets.UTF_8))
            for ((name, value) in members) assertEquals("seed $seed", value, parsed.string(name))
        }
    }

    private fun randomText(random: Random): String {
        val text = StringBuilder()
        repeat(random.nextInt(20)) { text.appendCodePoint(random.nextInt(0xD800)) }
        return text.toString()
    }

    private fun quote(text: String): String = text.map {
        if (it == '"' || it == '\\' || it.code < 0x20) "\\u%04x".format(it.code) else it.toString()
    }.joinToString("", "\"", "\"")

    @Test
    fun urlsAreSoundOrRejected() {
        val base = HttpUrl.parse("https://service.test/v1/checks/c/redirect?t=1")
        forEachMutation(urls) { input ->
            for (parse in listOf(HttpUrl.Companion::parse, base::resolve)) {
                val url = try {
                    parse(input)
                } catch (rejected: UrlException) {
                    continue
                }
                assertTrue(
                    url.requestTarget.startsWith("/") && url.requestTarget.all {
                        it.code in 0x21..0x7E && it != '#'
                    },
                )
                assertTrue(url.host.all { it in 'a'..'z' || it in '0'..'9' || it in "-_.:" } && url.port in 1..65_535)
                assertEquals(url.expose(), HttpUrl.parse(url.expose()).expose())
                assertEquals(url.expose(), base.resolve(url.expose()).expose())
                url.queryParameters()
                // Java's own parser, where it accepts the text at all, must see the same host.
                val java = try {
                    java.net.URI(url.expose())
                } catch (rejected: java.net.URISyntaxException) {
                    continue
                }
                if (java.host != null) assertEquals(url.host, java.host.removeSurrounding("[", "]"))
                assertEquals(null, java.rawUserInfo)
            }
        }
    }

    @Test
    fun cookiesAreSoundOrIgnored() {
        val source = HttpUrl.parse("https://www.operator.test/a/b")
        val others = listOf(
            "https://other.test/a/b",
            "https://test/a/b",
            "https://xoperator.test/a",
        ).map(HttpUrl.Companion::parse)
        forEachMutation(cookies) { input ->
            val jar = CookieJar { 0 }
            // Header values contain no control characters except tabs: the reader rejects them.
            jar.store(source, listOf(input.filter { (it.code >= 0x20 && it.code != 0x7F) || it == '\t' }))
            val header = jar.header(source).orEmpty()
            assertTrue(header.all { it.code in 0x20..0x7E })
            for (other in others) assertEquals(null, jar.header(other))
            CookieJar.parseCookieDate(input)
        }
    }

    private companion object {
        const val ROUNDS = 20_000L
        val TOKENS = listOf(
            "\r\n", "\r\n\r\n", "\n", "\r", "\u0000", ":", ";", "%00", "%", "..", "//", "@", "[", "]", "{", "}", "\"",
            "\\u00", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "fffffffff", "-1", "99999999999",
            "HTTP/1.1 ", " ", "\t",
            "Location: /\r\n", "\u00FF", "=", "&", "?", "#", "Domain=", ".", "127.0.0.1", "http:", "https://",
        )
    }
}
