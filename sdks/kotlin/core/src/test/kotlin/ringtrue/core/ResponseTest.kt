package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import ringtrue.core.TestServer.Companion.CODE
import ringtrue.core.TestServer.Companion.end
import ringtrue.core.TestServer.Companion.json
import ringtrue.core.TestServer.Companion.redirect
import ringtrue.core.TestServer.Companion.send

/** Responses, cookies, and what outcomes show of them. */
class ResponseTest : HostileServerFixture() {
    @Test
    fun cookiesStayWithinTheirHostAndScheme() {
        val plain = server { request, out ->
            when (request.host) {
                "operator.test" -> out.redirect("http://sub.operator.test:${request.port}/")
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
        assertRejected("the last response is not JSON", "HTTP/1.1 200 OK\r\n\r\n{}")
        assertProtocolError("the body is not a JSON object", respond { json("[]") })
        for (nested in listOf("[", "{\"a\":")) {
            val deep = "{\"a\":" + nested.repeat(60_000 / nested.length)
            assertProtocolError("the body is not a JSON object", respond { json(deep) })
        }
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
        assertRejected("the server switched protocols", "HTTP/1.1 101 Switching\r\n\r\n")
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
        assertRejected(closed, "HTTP/1.1 20")
        assertProtocolError(closed, respond { send(head) })
        assertRejected("the body is truncated", "${head}Content-Length: 50\r\n\r\n{")
        val chunked = "${head}Transfer-Encoding: chunked\r\n\r\n"
        assertProtocolError(closed, respond { send(chunked) })
        assertRejected("the body is truncated", "${chunked}5\r\n{")
        assertRejected(closed, "${chunked}2\r\n{}\r\n")
        assertRejected(closed, "${chunked}2\r\n{}\r\n0\r\n")
        assertRejected("a chunk is longer than its size", "${chunked}1\r\n{}\r\n0\r\n\r\n")
        assertRejected("a chunk's size is invalid", "$chunked-1\r\n{}\r\n0\r\n\r\n")
        assertRejected("the body is too large", "${chunked}fffffffffffff\r\n{}")
    }

    @Test
    fun oversizedResponsesFail() {
        val head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        assertRejected("the header is too large", "HTTP/1.1 200 ${"x".repeat(70_000)}")
        assertRejected(
            "the header is too large",
            head + (1..100).joinToString("") {
                "X-$it: ${"y".repeat(1_000)}\r\n"
            },
        )
        assertRejected("too many header fields", head + "X: y\r\n".repeat(300))
        assertRejected("the body is too large", "${head}Content-Length: 65537\r\n\r\n")
        assertRejected("the body is too large", "${head}Content-Length: 99999999999999999999\r\n\r\n")
        assertRejected("the body is too large", "$head\r\n${" ".repeat(70_000)}")
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
        assertRejected("the body has two lengths", "$head$length$chunked\r\n{}")
        assertRejected("a header field is repeated with different values", "$head${length}Content-Length: 3\r\n\r\n{} ")
        assertRejected("the content length is invalid", "${head}Content-Length: +2\r\n\r\n{}")
        assertRejected("the transfer encoding is not chunked", "${head}Transfer-Encoding: gzip\r\n\r\n")
        assertRejected("the body has a content encoding", "${head}Content-Encoding: gzip\r\n$length\r\n{}")
        assertRejected("a header field's name is invalid", "HTTP/1.1 200 OK\r\nContent-Type : x\r\n\r\n")
        assertRejected("a header field has no name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n")
        assertRejected("the header contains a control character", "HTTP/1.1 200 OK\r\nA: \u0000\r\n\r\n")
        assertRejected("the header contains a control character", "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n")
        assertRejected("the header starts with a folded line", "HTTP/1.1 200 OK\r\n A: b\r\n\r\n")
        for (line in listOf("HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1  200", "SSH-2.0-server", "ICY 200 OK", "")) {
            assertRejected("the status line is invalid", "$line\r\n\r\n")
        }
        assertRejected("the status is invalid", "HTTP/1.1 999 No\r\n\r\n")
    }

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
