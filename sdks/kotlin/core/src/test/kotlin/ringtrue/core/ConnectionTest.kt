package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Test
import ringtrue.core.TestServer.Companion.background
import ringtrue.core.TestServer.Companion.end
import ringtrue.core.TestServer.Companion.json
import ringtrue.core.TestServer.Companion.redirect
import ringtrue.core.TestServer.Companion.send
import java.io.Closeable
import java.io.OutputStream
import java.net.InetAddress
import java.net.ServerSocket
import java.net.UnknownHostException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import javax.net.SocketFactory

/** TLS, deadlines and cancellation. */
class ConnectionTest : HostileServerFixture() {
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
        val hanging = ServerSocket(0, 1, loopback[0]).also(opened::add)
        // Also for a hop whose own limit is longer than any test.
        val patient = client(options(hop = 600_000, total = 350))
        assertTrue(patient.open("http://a.test:${hanging.localPort}/") is CheckOutcome.TimedOut)
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
        val resolvers = listOf<(String) -> List<InetAddress>>({ throw UnknownHostException(it) }, { listOf() })
        for (resolver in resolvers) {
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
}
