package ringtrue.core

import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Test
import java.net.InetAddress

class HttpUrlTest {
    /** RFC 3986, sections 5.4.1 and 5.4.2, except other schemes and fragments. */
    @Test
    fun resolvesTheExamplesOfTheRfc() {
        val base = HttpUrl.parse("http://a/b/c/d;p?q")
        val examples = mapOf(
            "g" to "http://a/b/c/g", "./g" to "http://a/b/c/g", "g/" to "http://a/b/c/g/", "/g" to "http://a/g",
            "//g" to "http://g/", "?y" to "http://a/b/c/d;p?y", "g?y" to "http://a/b/c/g?y", ";x" to "http://a/b/c/;x",
            "g;x" to "http://a/b/c/g;x", "g;x?y" to "http://a/b/c/g;x?y", "." to "http://a/b/c/",
            "./" to "http://a/b/c/", ".." to "http://a/b/", "../" to "http://a/b/", "../g" to "http://a/b/g",
            "../.." to "http://a/", "../../" to "http://a/", "../../g" to "http://a/g",
            "../../../g" to "http://a/g", "../../../../g" to "http://a/g", "/./g" to "http://a/g",
            "/../g" to "http://a/g", "g." to "http://a/b/c/g.", ".g" to "http://a/b/c/.g", "g.." to "http://a/b/c/g..",
            "..g" to "http://a/b/c/..g", "./../g" to "http://a/b/g", "./g/." to "http://a/b/c/g/",
            "g/./h" to "http://a/b/c/g/h", "g/../h" to "http://a/b/c/h", "g;x=1/./y" to "http://a/b/c/g;x=1/y",
            "g;x=1/../y" to "http://a/b/c/y", "g?y/./x" to "http://a/b/c/g?y/./x",
            "g?y/../x" to "http://a/b/c/g?y/../x",
            "g#s" to "http://a/b/c/g", "g#s/../x" to "http://a/b/c/g",
        )
        for ((reference, expected) in examples) assertEquals(reference, expected, base.resolve(reference).expose())
    }

    @Test
    fun normalisesHostAndPort() {
        assertEquals("https://example.com/", HttpUrl.parse("HTTPS://EXAMPLE.com:443").expose())
        assertEquals("http://example.com/?a", HttpUrl.parse(" http://example.com:80?a\t").expose())
        assertEquals("https://example.com:80/", HttpUrl.parse("https://example.com:80/").expose())
        assertEquals("https://example.com/", HttpUrl.parse("https://example.com:").expose())
        assertEquals("http://[0:0:0:0:0:0:0:1]:8080/", HttpUrl.parse("http://[::1]:8080").expose())
        assertEquals("https://10.0.0.1/", HttpUrl.parse("https://10.0.0.1/").expose())
    }

    @Test
    fun escapesWhatRequestLinesMustNotContain() {
        val url = HttpUrl.parse("https://example.com/a b/\u00E9\uD83D\uDE00?q=\"<>\\^`{|}&%zz")
        assertEquals("/a%20b/%C3%A9%F0%9F%98%80?q=%22%3C%3E%5C%5E%60%7B%7C%7D&%zz", url.requestTarget)
    }

    @Test
    fun refusesAmbiguousAuthorities() {
        val longLabel = "a".repeat(64)
        val refused = listOf(
            "https://", "https:///path", "https://@example.com/", "https://a@b@c/", "https://exa mple.com/",
            "https://example.com:65536/", "https://example.com:-1/", "https://example.com:80:80/", "https://[::1/",
            "https://::1/", "https://[::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[1.2.3.4]/", "https://[::1]x/",
            "https://127.1/", "https://0177.0.0.1/", "https://1.2.3.256/", "https://1.2.3.4.5/", "https://0x7f000001/",
            "https://example.com./", "https://.example.com/", "https://a..b/", "https://-a.com/",
            "https://$longLabel.com/",
            "https://ex%61mple.com/", "https://ex\u00E4mple.com/", "https://example.com\\@evil.com/",
            "https://exam\u0000ple/",
            "https:/example.com/", "https://example.com/\r\nHost: evil", "h ttps://example.com/",
        )
        for (text in refused) {
            try {
                fail("$text gives ${HttpUrl.parse(text).expose()}")
            } catch (expected: UrlException) {
                continue
            }
        }
    }

    @Test
    fun decodesQueries() {
        val parameters = HttpUrl.parse("https://a/?x=1&y=a+b%2B%C3%A9&x=2&&empty=&none").queryParameters()
        assertEquals(mapOf("x" to "1", "y" to "a b+\u00E9", "empty" to "", "none" to ""), parameters)
        for (query in listOf("x=%", "x=%1", "x=%zz", "x=%FF")) {
            assertNull(query, HttpUrl.parse("https://a/?$query").queryParameters())
        }
    }

    @Test
    fun parsesIpv6AsJavaDoes() {
        val valid =
            listOf(
                "::",
                "::1",
                "1::",
                "1:2:3:4:5:6:7:8",
                "2001:db8::ff00:42:8329",
                "::ffff:1.2.3.4",
                "64:ff9b::1.2.3.4",
            )
        for (text in valid) {
            val parsed = InetAddress.getByAddress(IpAddresses.parseIpv6(text)!!)
            assertArrayEquals(text, InetAddress.getByName(text).address, parsed.address)
        }
        val invalid = listOf(
            "", ":", ":::", "1", "1:2", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", "::1.2.3",
            "1.2.3.4::", "1:2:3:4:5:6:7::8", ":1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:", "::1:", "1.2.3.4",
        )
        for (text in invalid) assertNull(text, IpAddresses.parseIpv6(text))
    }

    @Test
    fun permitsPrivateAddressesButNotTheDeviceItself() {
        fun permitted(text: String) = IpAddresses.isPermitted(InetAddress.getByName(text), false)
        for (text in listOf(
            "10.0.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "203.0.113.1",
            "2001:db8::1",
            "fd00::1",
            "64:ff9b::cb00:7101",
        )) {
            assertTrue(text, permitted(text))
        }
        val refused = listOf(
            "127.0.0.1", "127.1.2.3", "0.0.0.0", "169.254.169.254", "224.0.0.1", "::1", "::", "fe80::1", "ff02::1",
            "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1", "64:ff9b::a9fe:a9fe",
        )
        for (text in refused) assertFalse(text, permitted(text))
        assertTrue(IpAddresses.isPermitted(InetAddress.getByName("::1"), true))
        assertFalse(IpAddresses.isPermitted(InetAddress.getByName("0.0.0.0"), true))
    }

    @Test
    fun cleartextHostsAreChecked() {
        for (host in listOf("", "*", "*.", "https://a", "a/b", "a:80", "*.*.a")) {
            try {
                CheckOptions(cleartextHosts = setOf(host))
                fail(host)
            } catch (expected: IllegalArgumentException) {
                continue
            }
        }
        val options = CheckOptions(cleartextHosts = setOf("A.test", "*.b.test"))
        val permitted = listOf(
            "a.test",
            "b.test",
            "x.b.test",
            "x.y.b.test",
            "x.a.test",
            ".b.test",
        ).filter(options::permitsCleartext)
        assertEquals(listOf("a.test", "x.b.test", "x.y.b.test"), permitted)
    }
}
