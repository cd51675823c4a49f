package ringtrue.core

import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.fail
import org.junit.Rule
import org.junit.rules.Timeout
import ringtrue.core.TestServer.Companion.CODE
import ringtrue.core.TestServer.Companion.redirect
import ringtrue.core.TestServer.Companion.send
import java.io.Closeable
import java.io.OutputStream
import java.net.InetAddress
import javax.net.SocketFactory
import javax.net.ssl.HostnameVerifier
import javax.net.ssl.SSLSocketFactory

/** The whole client against servers that misbehave. Every host name resolves to loopback. */
abstract class HostileServerFixture {
    /** Ends a test that hangs; no test comes near it. */
    @get:Rule
    val hangGuard: Timeout = Timeout.seconds(120)

    internal val opened = ArrayList<Closeable>()
    internal val loopback = listOf(InetAddress.getByName("127.0.0.1"))

    @After
    fun closeServers() = opened.forEach { it.close() }

    internal fun server(handler: (TestRequest, OutputStream) -> Unit) = TestServer(handler = handler).also(opened::add)

    internal fun tlsServer(versions: List<String>? = null, handler: (TestRequest, OutputStream) -> Unit) =
        TestServer(TestCertificates.context, versions, handler).also(opened::add)

    internal fun options(
        cleartextHosts: Set<String> = setOf("service.test", "*.operator.test", "operator.test", "a.test", "b.test"),
        hop: Long = 20_000,
        total: Long = 60_000,
        tls: SSLSocketFactory? = TestCertificates.context.socketFactory,
        verifier: HostnameVerifier? = null,
    ) = CheckOptions(hop, total, cleartextHosts, true, tls, verifier)

    internal fun client(options: CheckOptions = options(), sockets: SocketFactory = SocketFactory.getDefault()) =
        CheckClient(sockets, { loopback }, options)

    internal fun open(server: TestServer, options: CheckOptions = options(), host: String = "service.test") =
        client(options).open("http://$host:${server.port}/v1/checks/c-1/redirect?t=secret")

    internal fun respond(options: CheckOptions = options(), response: OutputStream.() -> Unit): CheckOutcome =
        open(server { _, out -> out.response() }, options)

    internal fun assertCode(outcome: CheckOutcome) {
        if (outcome !is CheckOutcome.Completed) return fail("expected a code, got $outcome")
        assertEquals(CODE, outcome.code)
    }

    internal fun assertProtocolError(reason: String, outcome: CheckOutcome) {
        if (outcome !is CheckOutcome.ProtocolError) return fail("expected a protocol error, got $outcome")
        assertEquals(reason, outcome.reason)
    }

    /** A response that the client must not accept. */
    internal fun assertRejected(reason: String, response: String) =
        assertProtocolError(reason, respond { send(response) })
}
