package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Test
import ringtrue.core.TestServer.Companion.CODE
import ringtrue.core.TestServer.Companion.end
import ringtrue.core.TestServer.Companion.json
import ringtrue.core.TestServer.Companion.redirect
import java.net.InetAddress
import java.net.Socket
import java.util.concurrent.atomic.AtomicInteger
import javax.net.SocketFactory

/** Which targets are opened, and where a chain ends. */
class RedirectTest : HostileServerFixture() {
    @Test
    fun followsEveryKindOfRedirectWithRelativeAndAbsoluteTargets() {
        lateinit var target: TestServer
        target = server { request, out ->
            when (request.target) {
                "/v1/checks/c-1/redirect?t=secret" -> out.redirect("../../two?x=%20y#fragment", status = 301)
                "/v1/two?x=%20y" -> out.redirect("/three", status = 302)
                "/three" -> out.redirect("?q=1", status = 303)
                "/three?q=1" -> out.redirect("//service.test:${target.port}/four", status = 307)
                "/four" -> out.redirect("http://service.test:${target.port}/f\u00FCnf |\"", status = 308)
                "/f%FCnf%20%7C%22" -> out.end()
                else -> out.json("{}", "404 Not Found")
            }
        }
        val outcome = open(target)
        assertCode(outcome)
        assertEquals(listOf(301, 302, 303, 307, 308, 200), outcome.trace.map { it.status })
    }

    @Test
    fun tenRedirectsAreFollowedAndElevenAreNot() {
        fun chain(redirects: Int) = server { request, out ->
            val hop = request.target.removePrefix("/hop").toIntOrNull() ?: 0
            if (hop == redirects) out.end() else out.redirect("/hop${hop + 1}")
        }
        assertCode(open(chain(10)))
        val outcome = open(chain(11))
        assertTrue(outcome.toString(), outcome is CheckOutcome.TooManyRedirects)
        assertEquals(11, outcome.trace.size)
    }

    @Test
    fun aRedirectLoopEnds() {
        val looping = server { request, out -> out.redirect(request.target) }
        assertTrue(open(looping) is CheckOutcome.TooManyRedirects)
        assertEquals(11, looping.requests.size)
    }

    @Test
    fun refusedTargetsAreNotOpened() {
        val refused = mapOf(
            "http://user:password@operator.test/" to "the URL contains credentials",
            "https://user@operator.test/" to "the URL contains credentials",
            "ftp://operator.test/" to "the URL's scheme is neither https nor http",
            "intent://scan/#Intent;scheme=zxing;end" to "the URL's scheme is neither https nor http",
            "file:///etc/passwd" to "the URL's scheme is neither https nor http",
            "javascript:alert(1)" to "the URL's scheme is neither https nor http",
            "https:operator.test" to "the URL has no host",
            "http://operator.test:0/" to "the URL's port is invalid",
            "http://0x7f.1/" to "the URL's IPv4 address is invalid",
            "http://2130706433/" to "the URL's IPv4 address is invalid",
            "http://oper\\ator.test/" to "the URL's host is invalid",
            "" to "the redirect's target is empty",
        )
        for ((target, reason) in refused) {
            val outcome = respond { redirect(target) }
            assertTrue("$target: $outcome", outcome is CheckOutcome.UrlRefused && outcome.reason == reason)
        }
    }

    @Test
    fun aRefusedCheckUrlIsAnOutcome() {
        for (url in listOf("", "/relative", "ftp://service.test/", "https://user@service.test/", "https://a..b/")) {
            val outcome = client().open(url)
            assertTrue("$url: $outcome", outcome is CheckOutcome.UrlRefused && outcome.trace.isEmpty())
        }
    }

    @Test
    fun redirectsWithoutOrWithTwoTargetsFail() {
        assertRejected("a redirect has no target", "HTTP/1.1 302 Found\r\n\r\n")
        assertProtocolError(
            "a header field is repeated with different values",
            respond { redirect("/a", "Location: /b") },
        )
        assertProtocolError("the status is neither a redirect nor an end", respond { redirect("/a", status = 304) })
    }

    @Test
    fun theRedirectUrlIsNotOpened() {
        val start = server { _, out ->
            out.redirect("https://app.test/done?tenant=7&check_id=c-1&code=$CODE&reference_id=a%20b%2Bc")
        }
        val url = "http://service.test:${start.port}/v1/checks/c-1/redirect?t=secret"
        for (redirectUrl in listOf("https://APP.test:443/done?tenant=7", "https://app.test/done", null)) {
            val outcome = client().open(url, redirectUrl)
            assertCode(outcome)
            outcome as CheckOutcome.Completed
            assertEquals("c-1", outcome.checkId)
            assertEquals("a b+c", outcome.referenceId)
            assertEquals(1, outcome.trace.size)
        }
    }

    @Test
    fun theRedirectUrlMayCarryAnError() {
        val outcome = respond {
            redirect("http://app.test/?check_id=c-1&error=mno_timeout&error_description=use+Reverse%20SMS")
        }
        if (outcome !is CheckOutcome.OperatorRejected) return fail("$outcome")
        assertEquals("mno_timeout", outcome.error)
        assertEquals("use Reverse SMS", outcome.description)
    }

    @Test
    fun otherUrlsAreNotTakenForTheRedirectUrl() {
        val others = listOf(
            "/done?check_id=c-2&code=$CODE",
            "/done?code=$CODE&state=s",
            "/done?check_id=c-1",
            "/done?check_id=c-1&code=$CODE&error=mno_timeout",
        )
        for (other in others) {
            val target = server { request, out ->
                if (request.path == "/done") out.json("{}", "404 Not Found") else out.redirect(other)
            }
            val outcome = open(target)
            assertTrue("$other: $outcome", outcome is CheckOutcome.Problem && outcome.trace.size == 2)
        }
        // An operator cannot end the chain.
        val operator = server { request, out ->
            if (request.path == "/done") out.json("{}", "404 Not Found") else out.redirect("/done?check_id=c-1&code=x")
        }
        val service = server { _, out -> out.redirect("http://operator.test:${operator.port}/") }
        assertTrue(open(service) is CheckOutcome.Problem)
    }

    @Test
    fun anotherPathThanTheRedirectUrlIsOpened() {
        val target = server { request, out -> if (request.path == "/other") out.end() else out.redirect("/other?x=1") }
        val url = "http://service.test:${target.port}/v1/checks/c-1/redirect"
        assertCode(client().open(url, "http://service.test:${target.port}/done"))
        assertCode(client().open(url, "http://service.test:${target.port}/other?tenant=7"))
        assertEquals(4, target.requests.size)
    }

    @Test(expected = IllegalArgumentException::class)
    fun anInvalidRedirectUrlIsAnError() {
        client().open("https://service.test/", "myapp://done")
    }

    @Test
    fun aDowngradeIsRefusedUnlessTheHostIsListed() {
        val plain = server { _, out -> out.end() }
        fun start(host: String) = tlsServer { _, out -> out.redirect("http://$host:${plain.port}/enrich") }
        fun outcome(host: String, listed: Set<String>) =
            client(options(listed)).open("https://operator.test:${start(host).port}/")

        for (listed in listOf(setOf(), setOf("other.test"), setOf("*.he.operator.test"))) {
            val refused = outcome("he.operator.test", listed)
            assertTrue("$refused", refused is CheckOutcome.DowngradeRefused && refused.host == "he.operator.test")
        }
        assertTrue(plain.requests.isEmpty())
        assertCode(outcome("he.operator.test", setOf("HE.operator.test")))
        assertCode(outcome("he.operator.test", setOf("*.operator.test")))
        assertTrue(outcome("evil-operator.test", setOf("*.operator.test")) is CheckOutcome.DowngradeRefused)
    }

    @Test
    fun aListedHostCannotLeadToAnUnlistedOne() {
        val second = server { _, out -> out.end() }
        val first = server { _, out -> out.redirect("http://b.test:${second.port}/") }
        val outcome = open(first, options(setOf("a.test")), "a.test")
        assertTrue("$outcome", outcome is CheckOutcome.DowngradeRefused && outcome.host == "b.test")
    }

    @Test
    fun thePlatformCanForbidPlainHttp() {
        val plain = server { _, out -> out.end() }
        val client = CheckClient(SocketFactory.getDefault(), { loopback }, options()) { it != "a.test" }
        assertCode(client.open("http://b.test:${plain.port}/"))
        assertTrue(client.open("http://a.test:${plain.port}/") is CheckOutcome.DowngradeRefused)
    }

    @Test
    fun loopbackIsRefusedByDefault() {
        val target = server { _, out -> out.end() }
        val strict = CheckOptions(cleartextHosts = setOf("a.test", "127.0.0.1", "localhost"))
        for (host in listOf("a.test", "127.0.0.1", "localhost")) {
            val outcome = CheckClient(SocketFactory.getDefault(), {
                loopback
            }, strict).open("http://$host:${target.port}/")
            assertTrue("$host: $outcome", outcome is CheckOutcome.AddressRefused && outcome.host == host)
        }
        assertTrue(CheckClient().open("http://127.0.0.1:${target.port}/") is CheckOutcome.DowngradeRefused)
        assertTrue(target.requests.isEmpty())
        assertCode(CheckClient(options = CheckOptions(allowLoopback = true)).open("http://localhost:${target.port}/"))
    }

    @Test
    fun addressesAreTriedInOrder() {
        val target = server { _, out -> out.end() }
        val addresses = listOf("127.0.0.2", "127.0.0.3", "127.0.0.1").map { InetAddress.getByName(it) }
        val outcome = CheckClient(SocketFactory.getDefault(), {
            addresses
        }, options()).open("http://a.test:${target.port}/")
        assertCode(outcome)
    }

    @Test
    fun everyConnectionUsesTheGivenSocketsAndResolver() {
        val sockets = CountingSockets()
        val resolved = ArrayList<String>()
        val target = server { request, out ->
            if (request.host ==
                "b.test"
            ) {
                out.end()
            } else {
                out.redirect("http://b.test:${request.port}/")
            }
        }
        val client = CheckClient(sockets, { host ->
            resolved.add(host)
            loopback
        }, options())
        assertCode(client.open("http://a.test:${target.port}/"))
        assertEquals(listOf("a.test", "b.test"), resolved)
        assertEquals(2, sockets.created.get())
    }

    private class CountingSockets : SocketFactory() {
        val created = AtomicInteger()

        override fun createSocket(): Socket {
            created.incrementAndGet()
            return Socket()
        }

        override fun createSocket(host: String?, port: Int): Socket = throw UnsupportedOperationException()

        override fun createSocket(host: String?, port: Int, local: InetAddress?, localPort: Int): Socket =
            throw UnsupportedOperationException()

        override fun createSocket(address: InetAddress?, port: Int): Socket = throw UnsupportedOperationException()

        override fun createSocket(address: InetAddress?, port: Int, local: InetAddress?, localPort: Int): Socket =
            throw UnsupportedOperationException()
    }
}
