package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Test

class CookieJarTest {
    private var time = 1_700_000_000_000L
    private val jar = CookieJar { time }

    private fun store(url: String, vararg fields: String) = jar.store(HttpUrl.parse(url), fields.toList())

    private fun header(url: String) = jar.header(HttpUrl.parse(url))

    @Test
    fun pathsFollowTheRfc() {
        store("https://a.test/one/two", "default=1", "deep=2; Path=/one/two/three", "root=3; Path=/", "odd=4; Path=odd")
        assertEquals("deep=2; default=1; odd=4; root=3", header("https://a.test/one/two/three/four"))
        assertEquals("default=1; odd=4; root=3", header("https://a.test/one"))
        assertEquals("root=3", header("https://a.test/onetwo"))
    }

    @Test
    fun domainsFollowTheRfc() {
        store(
            "https://www.a.test/",
            "host=1",
            "wide=2; Domain=.a.test",
            "own=3; Domain=www.a.test",
            "no=4; Domain=b.test",
        )
        store(
            "https://www.a.test/",
            "no=5; Domain=test",
            "no=6; Domain=x.www.a.test",
            "dot=7; Domain=.",
            "empty=8; Domain=",
        )
        assertEquals("host=1; wide=2; own=3; dot=7; empty=8", header("https://www.a.test/"))
        assertEquals("wide=2; own=3", header("https://x.www.a.test/"))
        assertEquals("wide=2", header("https://a.test/"))
        assertNull(header("https://ba.test/"))
        assertNull(header("https://b.test/"))
    }

    @Test
    fun singleLabelsAndAddressesKeepTheirCookiesToThemselves() {
        store("http://intranet/", "a=1; Domain=intranet")
        assertEquals("a=1", header("http://intranet/"))
        assertNull(header("http://x.intranet/"))
        store("http://10.0.0.1/", "b=2; Domain=10.0.0.1", "c=3; Domain=0.0.1")
        assertEquals("b=2", header("http://10.0.0.1/"))
    }

    @Test
    fun secureCookiesNeedHttps() {
        store("https://a.test/", "a=1; Secure", "b=2")
        assertEquals("a=1; b=2", header("https://a.test/"))
        assertEquals("b=2", header("http://a.test/"))
        store("http://a.test/", "a=forged", "c=3; Secure", "b=new")
        assertEquals("a=1; b=new", header("https://a.test/"))
    }

    @Test
    fun prefixesAreEnforced() {
        store(
            "https://a.test/",
            "__Secure-a=1",
            "__Secure-b=2; Secure",
            "__Host-c=3; Secure",
            "__Host-d=4; Secure; Path=/",
        )
        store("https://a.test/", "__Host-e=5; Secure; Path=/; Domain=a.test")
        assertEquals("__Secure-b=2; __Host-d=4", header("https://a.test/"))
    }

    @Test
    fun cookiesExpireAndAreDeleted() {
        store("https://a.test/", "a=1; Max-Age=10", "b=2; Expires=Wed, 15 Nov 2023 00:00:00 GMT", "c=3; Max-Age=x")
        store(
            "https://a.test/",
            "d=4; Max-Age=99999999999999999999; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "e=5; Max-Age=-1",
        )
        assertEquals("a=1; b=2; c=3; d=4", header("https://a.test/"))
        time += 10_000
        assertEquals("b=2; c=3; d=4", header("https://a.test/"))
        store("https://a.test/", "c=; Expires=Thu, 01-Jan-1970 00:00:00 GMT")
        time += 24 * 3_600_000
        assertEquals("d=4", header("https://a.test/"))
    }

    @Test
    fun oddCookiesAreIgnoredOrKeptAsTheRfcSays() {
        store("https://a.test/", "", ";", "=", "novalue", "=v", "x = y z ", "quoted=\"q\"", "latin=\u00E9")
        store("https://a.test/", "long=" + "x".repeat(5_000))
        assertEquals("x=y z; quoted=\"q\"", header("https://a.test/"))
        assertNull(header("https://b.test/"))
    }

    @Test
    fun datesFollowTheRfc() {
        assertEquals(784_111_777_000L, CookieJar.parseCookieDate("Sun, 06 Nov 1994 08:49:37 GMT"))
        assertEquals(784_111_777_000L, CookieJar.parseCookieDate("Sunday, 06-Nov-94 08:49:37 GMT"))
        assertEquals(784_111_777_000L, CookieJar.parseCookieDate("Sun Nov  6 08:49:37 1994"))
        val invalid =
            listOf(
                "",
                "now",
                "06 Nov 1994",
                "06 Nov 1994 24:00:00",
                "31 Feb 1994 00:00:00",
                "06 Nov 1600 00:00:00",
                "06 Nov 1994 1:2",
            )
        for (text in invalid) assertNull(text, CookieJar.parseCookieDate(text))
    }
}
