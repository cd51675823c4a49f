package ringtrue.core

import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Rule
import org.junit.Test
import org.junit.rules.Timeout
import ringtrue.core.TestServer.Companion.CODE
import ringtrue.core.TestServer.Companion.background
import ringtrue.core.TestServer.Companion.end
import ringtrue.core.TestServer.Companion.json
import ringtrue.core.TestServer.Companion.redirect
import ringtrue.core.TestServer.Companion.send
import java.io.Closeable
import java.io.OutputStream
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import javax.net.SocketFactory
import javax.net.ssl.HostnameVerifier
import javax.net.ssl.SSLSocketFactory

/** The whole client against servers that misbehave. Every host name resolves to loopback. */
class HostileServerTest {
    /** Ends a test that hangs; no test comes near it. */
    @get:Rule
    val hangGuard: Timeout = Timeout.seconds(120)

    private val opened = ArrayList<Closeable>()
    private val loopback = listOf(InetAddress.getByName("127.0.0.1"))

    @After
    fun closeServers() = opened.forEach { it.close() }

    private fun server(handler: (TestRequest, OutputStream) -> Unit) = TestServer(handler = handler).also(opened::add)

    private fun tlsServer(versions: List<String>? = null, handler: (TestRequest, OutputStream) -> Unit) =
        TestServer(TestCertificates.context, versions, handler).also(opened::add)

    private fun options(
        cleartextHosts: Set<String> = setOf("service.test", "*.operator.test", "operator.test", "a.test", "b.test"),
        hop: Long = 20_000,
        total: Long = 60_000,
        tls: SSLSocketFactory? = TestCertificates.context.socketFactory,
        verifier: HostnameVerifier? = null,
    ) = CheckOptions(hop, total, cleartextHosts, true, tls, verifier)

    private fun client(options: CheckOptions = options(), sockets: SocketFactory = SocketFactory.getDefault()) =
        CheckClient(sockets, { loopback }, options)

    private fun open(server: TestServer, options: CheckOptions = options(), host: String = "service.test") =
        client(options).open("http://$host:${server.port}/v1/checks/c-1/redirect?t=secret")

    private fun respond(options: CheckOptions = options(), response: OutputStream.() -> Unit): CheckOutcome =
        open(server { _, out -> out.response() }, options)

    private fun assertCode(outcome: CheckOutcome) {
        if (outcome !is CheckOutcome.Completed) return fail("expected a code, got $outcome")
        assertEquals(CODE, outcome.code)
    }

    private fun assertProtocolError(reason: String, outcome: CheckOutcome) {
        if (outcome !is CheckOutcome.ProtocolError) return fail("expected a protocol error, got $outcome")
        assertEquals(reason, outcome.reason)
    }

    // Redirects

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
        assertProtocolError("a redirect has no target", respond { send("HTTP/1.1 302 Found\r\n\r\n") })
        assertProtocolError(
            "a header field is repeated with different values",
            respond { redirect("/a", "Location: /b") },
        )
        assertProtocolError("the status is neither a redirect nor an end", respond { redirect("/a", status = 304) })
    }

    // The redirect URL

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

    // Downgrades and addresses

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
                out.redirect("http://b.test:${request.fields["host"]!!.substringAfter(':')}/")
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

    // TLS

    @Test
    fun tlsUsesServerNamesAndBothVersions() {
        for (versions in listOf(null, listOf("TLSv1.2"), listOf("TLSv1.3"))) {
            val target = tlsServer(versions) { _, out -> out.end() }
            assertCode(client().open("https://operator.test:${target.port}/"))
            assertEquals("operator.test", target.requests.single().serverName)
        }
    }

    @Test
    fun aCertificateForAnotherHostIsRefused() {
        val target = tlsServer { _, out -> out.end() }
        for (host in listOf("other.test", "sub.operator.test", "127.0.0.1", "localhost")) {
            val outcome = client().open("https://$host:${target.port}/")
            assertTrue(
                "$host: $outcome",
                outcome is CheckOutcome.ConnectionFailed && outcome.stage == ConnectionStage.TLS,
            )
        }
        assertTrue(target.requests.isEmpty())
    }

    @Test
    fun anUntrustedCertificateIsRefused() {
        val target = tlsServer { _, out -> out.end() }
        val outcome = client(options(tls = null)).open("https://operator.test:${target.port}/")
        assertTrue("$outcome", outcome is CheckOutcome.ConnectionFailed && outcome.stage == ConnectionStage.TLS)
        assertTrue(target.requests.isEmpty())
    }

    @Test
    fun theSecondHostnameCheckCanRefuse() {
        val target = tlsServer { _, out -> out.end() }
        val url = "https://operator.test:${target.port}/"
        assertCode(client(options(verifier = { host, _ -> host == "operator.test" })).open(url))
        assertTrue(client(options(verifier = { _, _ -> false })).open(url) is CheckOutcome.ConnectionFailed)
    }

    @Test
    fun plainHttpOnATlsPortAndTheReverseFail() {
        val plain = server { _, out -> out.end() }
        val encrypted = tlsServer { _, out -> out.end() }
        // Both sides wait for the other to speak.
        val outcome = client(options(hop = 300)).open("https://operator.test:${plain.port}/")
        assertTrue("$outcome", outcome is CheckOutcome.TimedOut)
        assertTrue(client().open("http://operator.test:${encrypted.port}/") is CheckOutcome.Failure)
    }

    // Cookies

    @Test
    fun cookiesStayWithinTheirHostAndScheme() {
        val plain = server { request, out ->
            when (request.host) {
                "operator.test" -> out.redirect(
                    "http://sub.operator.test:${request.fields["host"]!!.substringAfter(':')}/",
                )

                else -> out.end()
            }
        }
        val encrypted = tlsServer { request, out ->
            when (request.path) {
                "/v1/checks/c-1/redirect" -> out.redirect(
                    "/next",
                    "Set-Cookie: host=1; Path=/",
                    "Set-Cookie: wide=2; Domain=operator.test; Path=/",
                    "Set-Cookie: safe=3; Secure; Path=/",
                    "Set-Cookie: path=4",
                    "Set-Cookie: foreign=5; Domain=other.test",
                    "Set-Cookie: suffix=6; Domain=test",
                    "Set-Cookie: gone=7; Path=/; Max-Age=0",
                )

                else -> out.redirect("http://operator.test:${plain.port}/", "Set-Cookie: host=; Max-Age=0; Path=/")
            }
        }
        assertCode(client().open("https://operator.test:${encrypted.port}/v1/checks/c-1/redirect"))
        assertEquals(listOf(null, "host=1; wide=2; safe=3"), encrypted.requests.map { it.cookie })
        assertEquals(listOf("wide=2", "wide=2"), plain.requests.map { it.cookie })
    }

    @Test
    fun cookiesDoNotReachOtherHostsOrTheNextChain() {
        lateinit var target: TestServer
        target = server { request, out ->
            if (request.host ==
                "b.test"
            ) {
                out.end()
            } else {
                out.redirect("http://b.test:${target.port}/", "Set-Cookie: a=1")
            }
        }
        val client = client()
        repeat(2) { assertCode(client.open("http://a.test:${target.port}/")) }
        assertEquals(listOf<String?>(null, null, null, null), target.requests.map { it.cookie })
    }

    @Test
    fun aFloodOfCookiesIsBounded() {
        val cookies = (1..150).map { "Set-Cookie: c$it=${"x".repeat(300)}; Path=/" }.toTypedArray()
        val target = server { request, out ->
            if (request.path ==
                "/end"
            ) {
                out.end()
            } else {
                out.redirect("/end", *cookies)
            }
        }
        assertCode(open(target))
        assertTrue(target.requests[1].cookie!!.length <= 8_192)
    }

    // Ends of the chain

    @Test
    fun errorsAtTheEndAreTyped() {
        val rejected = respond { json("""{"check_id":"c-1","error":"mno_server_error","error_description":"d"}""") }
        assertTrue("$rejected", rejected is CheckOutcome.OperatorRejected && rejected.error == "mno_server_error")

        val problemType = "application/problem+json"
        val notMobile = respond { json("""{"error_code":"not_mobile_ip"}""", "412 Precondition Failed", problemType) }
        assertTrue(
            "$notMobile",
            notMobile is CheckOutcome.NotOnMobileData && notMobile.reason == MobileDataProblem.OTHER_NETWORK_SEEN,
        )

        val expired = respond { json("""{"status":410,"error_code":"check_expired"}""", "410 Gone", problemType) }
        assertTrue(
            "$expired",
            expired is CheckOutcome.Problem && expired.status == 410 && expired.errorCode == "check_expired",
        )
    }

    @Test
    fun errorsWithoutAProblemKeepTheirStatus() {
        val bodies = listOf("", "<html>", "{", """{"error_code":7}""", """{"error_code":"<script>"}""")
        for (body in bodies) {
            val outcome = respond { json(body, "502 Bad Gateway", "application/problem+json") }
            assertTrue(
                "$outcome",
                outcome is CheckOutcome.Problem && outcome.status == 502 && outcome.errorCode == null,
            )
        }
        val truncated = respond { send("HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\nshort") }
        assertTrue("$truncated", truncated is CheckOutcome.Problem && truncated.status == 500)
    }

    @Test
    fun otherEndsAreProtocolErrors() {
        assertProtocolError("the last response is not JSON", respond { json("<html>", type = "text/html") })
        assertProtocolError("the last response is not JSON", respond { send("HTTP/1.1 200 OK\r\n\r\n{}") })
        assertProtocolError("the body is not a JSON object", respond { json("[]") })
        assertProtocolError("the body is not a JSON object", respond { json("[".repeat(60_000)) })
        assertProtocolError("the body is not a JSON object", respond { json("""{"code":"a","code":"b"}""") })
        assertProtocolError("the body is not UTF-8", respond { json("{\"code\":\"\u00FF\"}") })
        assertProtocolError("the chain's end has no code or error", respond { json("{}") })
        assertProtocolError("the chain's end has no code or error", respond { json("""{"code":"a","error":"b"}""") })
        assertProtocolError("the code is invalid", respond { json("""{"code":""}""") })
        assertProtocolError("the code is invalid", respond { json("""{"code":"a b"}""") })
        assertProtocolError("the code is invalid", respond { json("""{"code":"${"a".repeat(501)}"}""") })
        assertProtocolError("the error code is invalid", respond { json("""{"error":"a\nb"}""") })
        assertProtocolError(
            "the status is neither a redirect nor an end",
            respond {
                json("{}", "206 Partial Content")
            },
        )
        assertProtocolError("the server switched protocols", respond { send("HTTP/1.1 101 Switching\r\n\r\n") })
    }

    @Test
    fun bodiesMayBeChunkedOrEndWithTheConnection() {
        val body = """{"code":"$CODE"}"""
        assertCode(respond { send("HTTP/1.0 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n\r\n$body") })
        assertCode(
            respond {
                send("HTTP/1.1 200\nContent-Type: application/json\nContent-Length: ${body.length}\n\n$body")
            },
        )
        val half = body.length / 2
        val chunks = "${half.toString(16)};name=value\r\n${body.take(half)}\r\n" +
            "00${(body.length - half).toString(16).uppercase()}\r\n${body.drop(half)}\r\n0\r\nTrailer: x\r\n\r\n"
        assertCode(
            respond {
                send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n$chunks")
            },
        )
    }

    @Test
    fun interimResponsesAreSkipped() {
        assertCode(
            respond {
                send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLocation: /no\r\n\r\n")
                end()
            },
        )
        assertProtocolError(
            "too many interim responses",
            respond {
                repeat(50) { send("HTTP/1.1 100 Continue\r\n\r\n") }
            },
        )
    }

    @Test
    fun truncatedResponsesFail() {
        val head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        val closed = "the connection closed before the response was complete"
        assertProtocolError(closed, respond { })
        assertProtocolError(closed, respond { send("HTTP/1.1 20") })
        assertProtocolError(closed, respond { send(head) })
        assertProtocolError("the body is truncated", respond { send("${head}Content-Length: 50\r\n\r\n{") })
        val chunked = "${head}Transfer-Encoding: chunked\r\n\r\n"
        assertProtocolError(closed, respond { send(chunked) })
        assertProtocolError("the body is truncated", respond { send("${chunked}5\r\n{") })
        assertProtocolError(closed, respond { send("${chunked}2\r\n{}\r\n") })
        assertProtocolError(closed, respond { send("${chunked}2\r\n{}\r\n0\r\n") })
        assertProtocolError("a chunk is longer than its size", respond { send("${chunked}1\r\n{}\r\n0\r\n\r\n") })
        assertProtocolError("a chunk's size is invalid", respond { send("$chunked-1\r\n{}\r\n0\r\n\r\n") })
        assertProtocolError("the body is too large", respond { send("${chunked}fffffffffffff\r\n{}") })
    }

    @Test
    fun oversizedResponsesFail() {
        val head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        assertProtocolError("the header is too large", respond { send("HTTP/1.1 200 ${"x".repeat(70_000)}") })
        assertProtocolError(
            "the header is too large",
            respond {
                repeat(100) {
                    send(
                        "X-$it: ${"y".repeat(1_000)}\r\n".let { f ->
                            if (it ==
                                0
                            ) {
                                head + f
                            } else {
                                f
                            }
                        },
                    )
                }
            },
        )
        assertProtocolError("too many header fields", respond { send(head + "X: y\r\n".repeat(300)) })
        assertProtocolError("the body is too large", respond { send("${head}Content-Length: 65537\r\n\r\n") })
        assertProtocolError(
            "the body is too large",
            respond {
                send("${head}Content-Length: 99999999999999999999\r\n\r\n")
            },
        )
        assertProtocolError("the body is too large", respond { send("$head\r\n${" ".repeat(70_000)}") })
        assertProtocolError(
            "the body is too large",
            respond {
                send("${head}Transfer-Encoding: chunked\r\n\r\n")
                repeat(20) { send("2000\r\n${" ".repeat(0x2000)}\r\n") }
            },
        )
        val long = respond { redirect("/" + "x".repeat(20_000)) }
        assertTrue("$long", long is CheckOutcome.UrlRefused && long.reason == "the URL is too long")
    }

    @Test
    fun ambiguousResponsesFail() {
        val head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        val length = "Content-Length: 2\r\n"
        val chunked = "Transfer-Encoding: chunked\r\n"
        assertProtocolError("the body has two lengths", respond { send("$head$length$chunked\r\n{}") })
        assertProtocolError(
            "a header field is repeated with different values",
            respond { send("$head${length}Content-Length: 3\r\n\r\n{} ") },
        )
        assertProtocolError("the content length is invalid", respond { send("${head}Content-Length: +2\r\n\r\n{}") })
        assertProtocolError(
            "the transfer encoding is not chunked",
            respond {
                send("${head}Transfer-Encoding: gzip\r\n\r\n")
            },
        )
        assertProtocolError(
            "the body has a content encoding",
            respond {
                send("${head}Content-Encoding: gzip\r\n$length\r\n{}")
            },
        )
        assertProtocolError(
            "a header field's name is invalid",
            respond {
                send("HTTP/1.1 200 OK\r\nContent-Type : x\r\n\r\n")
            },
        )
        assertProtocolError("a header field has no name", respond { send("HTTP/1.1 200 OK\r\n: x\r\n\r\n") })
        assertProtocolError(
            "the header contains a control character",
            respond {
                send("HTTP/1.1 200 OK\r\nA: \u0000\r\n\r\n")
            },
        )
        assertProtocolError(
            "the header contains a control character",
            respond {
                send("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n")
            },
        )
        assertProtocolError(
            "the header starts with a folded line",
            respond {
                send("HTTP/1.1 200 OK\r\n A: b\r\n\r\n")
            },
        )
        for (line in listOf("HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1  200", "SSH-2.0-server", "ICY 200 OK", "")) {
            assertProtocolError("the status line is invalid", respond { send("$line\r\n\r\n") })
        }
        assertProtocolError("the status is invalid", respond { send("HTTP/1.1 999 No\r\n\r\n") })
    }

    // Time and cancellation

    @Test
    fun serversThatHangTimeOut() {
        val brief = options(hop = 300)
        val silent = ServerSocket(0, 1, loopback[0]).also(opened::add)
        for (scheme in listOf("http", "https")) {
            val outcome = client(brief).open("$scheme://operator.test:${silent.localPort}/")
            assertTrue("$outcome", outcome is CheckOutcome.TimedOut)
            assertNull(outcome.trace.single().status)
        }
        val released = CountDownLatch(1)
        opened.add(Closeable { released.countDown() })
        val hanging = respond(brief) {
            send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
            released.await()
        }
        assertTrue("$hanging", hanging is CheckOutcome.TimedOut)
        assertEquals(200, hanging.trace.single().status)
    }

    @Test
    fun slowBytesDoNotExtendTheDeadline() {
        val brief = options(hop = 400)
        val heads = listOf("", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        for (head in heads) {
            val outcome = respond(brief) {
                send(head)
                drip(this)
            }
            assertTrue("$outcome", outcome is CheckOutcome.TimedOut)
        }
    }

    @Test
    fun slowTlsRecordsDoNotExtendTheDeadline() {
        val listener = ServerSocket(0, 5, loopback[0]).also(opened::add)
        background("slow-tls") {
            val socket = listener.accept()
            opened.add(socket)
            // The header of a handshake record that never completes.
            socket.getOutputStream().write(byteArrayOf(22, 3, 3, 0x3F, 0))
            drip(socket.getOutputStream())
        }
        val outcome = client(options(hop = 400)).open("https://operator.test:${listener.localPort}/")
        assertTrue("$outcome", outcome is CheckOutcome.TimedOut)
    }

    /** Sends a byte from time to time until the peer closes. */
    private fun drip(out: OutputStream) {
        while (true) {
            out.write('x'.code)
            out.flush()
            Thread.sleep(20)
        }
    }

    @Test
    fun theWholeChainHasALimit() {
        val slow = server { request, out ->
            Thread.sleep(100)
            out.redirect(request.target + "x")
        }
        val outcome = open(slow, options(total = 350))
        assertTrue("$outcome", outcome is CheckOutcome.TimedOut && outcome.trace.size < 11)
    }

    @Test
    fun aResolverThatHangsTimesOut() {
        val released = CountDownLatch(1)
        opened.add(Closeable { released.countDown() })
        val client = CheckClient(SocketFactory.getDefault(), {
            released.await()
            loopback
        }, options(hop = 300))
        assertTrue(client.open("https://operator.test/") is CheckOutcome.TimedOut)
    }

    @Test
    fun unreachableHostsAreConnectionFailures() {
        val closedPort = ServerSocket(0, 1, loopback[0]).use { it.localPort }
        val refused = client().open("http://a.test:$closedPort/")
        assertTrue("$refused", refused is CheckOutcome.ConnectionFailed && refused.stage == ConnectionStage.CONNECT)
        for (resolver in listOf<
            (
                String,
            ) -> List<InetAddress>,
            >({ throw java.net.UnknownHostException(it) }, { listOf() })) {
            val unknown = CheckClient(SocketFactory.getDefault(), resolver, options()).open("http://a.test/")
            assertTrue("$unknown", unknown is CheckOutcome.ConnectionFailed && unknown.stage == ConnectionStage.RESOLVE)
        }
    }

    @Test
    fun aResetIsAConnectionFailure() {
        val listener = ServerSocket(0, 1, loopback[0]).also(opened::add)
        background("reset") {
            listener.accept().use {
                it.getInputStream().read()
                it.getOutputStream().write("HTTP/1.1 200 OK\r\n".toByteArray())
                // Closing with unread data and no linger sends a reset.
                it.setSoLinger(true, 0)
            }
        }
        val outcome = client().open("http://a.test:${listener.localPort}/")
        assertTrue("$outcome", outcome is CheckOutcome.ConnectionFailed && outcome.stage == ConnectionStage.TRANSFER)
    }

    @Test
    fun aRunningCallCanBeCancelled() {
        val released = CountDownLatch(1)
        opened.add(Closeable { released.countDown() })
        val reached = CountDownLatch(1)
        fun hang(out: OutputStream) {
            out.send("HTTP/1.1 200 OK\r\n")
            reached.countDown()
            released.await()
        }
        for (target in listOf(server { _, out -> hang(out) }, tlsServer { _, out -> hang(out) })) {
            val scheme = if (target === opened.last()) "https" else "http"
            val cancellation = Cancellation()
            val outcome = CompletableFuture.supplyAsync {
                client().open("$scheme://operator.test:${target.port}/", cancellation = cancellation)
            }
            reached.await()
            assertFalse(outcome.isDone)
            cancellation.cancel()
            assertTrue(outcome.get() is CheckOutcome.Cancelled)
        }
    }

    @Test
    fun resolvingCanBeCancelledAndInterrupted() {
        val released = CountDownLatch(1)
        opened.add(Closeable { released.countDown() })
        val resolving = java.util.concurrent.Semaphore(0)
        val client = CheckClient(SocketFactory.getDefault(), {
            resolving.release()
            released.await()
            loopback
        }, options())
        val cancellation = Cancellation()
        val cancelled = CompletableFuture.supplyAsync {
            client.open("https://operator.test/", cancellation = cancellation)
        }
        resolving.acquire()
        cancellation.cancel()
        assertTrue(cancelled.get() is CheckOutcome.Cancelled)

        val interrupted = CompletableFuture<CheckOutcome>()
        val thread = Thread { interrupted.complete(client.open("https://operator.test/")) }
        thread.start()
        resolving.acquire()
        thread.interrupt()
        assertTrue(interrupted.get(60, TimeUnit.SECONDS) is CheckOutcome.Cancelled)
    }

    @Test
    fun aCancelledCallSendsNothing() {
        val target = server { _, out -> out.end() }
        val cancellation = Cancellation()
        cancellation.cancel()
        assertTrue(cancellation.isCancelled)
        val outcome = client().open("http://a.test:${target.port}/", cancellation = cancellation)
        assertTrue(outcome is CheckOutcome.Cancelled)
        assertTrue(target.requests.isEmpty())
    }

    @Test
    fun noThreadsAreLeftBehind() {
        assertCode(respond { end() })
        val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60)
        fun watchdogs() = Thread.getAllStackTraces().keys.count { it.name == "ringtrue-watchdog" }
        while (watchdogs() > 0) {
            if (System.nanoTime() > deadline) fail("the watchdog's thread is still running")
            Thread.yield()
        }
    }

    // Secrets

    @Test
    fun outcomesDoNotShowSecrets() {
        val target = server { request, out ->
            if (request.path ==
                "/private-path"
            ) {
                out.end()
            } else {
                out.redirect("/private-path?private-query", "Set-Cookie: private=cookie")
            }
        }
        val outcomes = listOf(
            open(target),
            respond { redirect("http://private-user@a.test/private") },
            respond { redirect("ftp://private/") },
            respond { json("""{"code":"private code"}""") },
            respond { json("""{"error":"mno_timeout","error_description":"private"}""") },
            respond { send("HTTP/1.1 private\r\n\r\n") },
            respond { redirect("http://c.test/private") },
        )
        for (outcome in outcomes) {
            val text = outcome.toString()
            assertFalse(text, text.contains("private") || text.contains("secret") || text.contains(CODE))
            assertTrue(text, text.contains("service.test"))
        }
    }

    @Test
    fun requestsLookAsTheGuideDemands() {
        val target = server { _, out -> out.end() }
        assertCode(open(target))
        val request = target.requests.single()
        assertEquals("/v1/checks/c-1/redirect?t=secret", request.target)
        assertEquals("service.test:${target.port}", request.fields["host"])
        assertEquals("close", request.fields["connection"])
        assertEquals("identity", request.fields["accept-encoding"])
        assertFalse(request.fields.getValue("accept").contains("html"))
        assertFalse("referer" in request.fields)
    }
}
