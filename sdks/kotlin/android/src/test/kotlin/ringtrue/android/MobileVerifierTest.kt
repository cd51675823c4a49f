package ringtrue.android

import android.content.ContentResolver
import android.content.Context
import android.content.pm.PackageManager
import android.net.ConnectivityManager
import android.net.ConnectivityManager.NetworkCallback
import android.net.Network
import android.net.NetworkCapabilities
import android.os.Build
import android.os.Looper
import android.security.NetworkSecurityPolicy
import android.telephony.TelephonyManager
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Before
import org.junit.Rule
import org.junit.Test
import org.junit.rules.Timeout
import ringtrue.core.Cancellation
import ringtrue.core.CheckOptions
import ringtrue.core.CheckOutcome
import ringtrue.core.MobileDataProblem
import java.net.InetAddress
import java.net.ServerSocket
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch

class MobileVerifierTest {
    /** Ends a test that hangs; no test comes near it. */
    @get:Rule
    val hangGuard: Timeout = Timeout.seconds(120)

    private class FakeContext : Context() {
        val resolver = ContentResolver()
        val packages = PackageManager().apply { features.add("android.hardware.telephony") }
        val connectivity = ConnectivityManager()
        var telephony: TelephonyManager? = TelephonyManager()

        override fun getApplicationContext(): Context = this

        override fun getContentResolver(): ContentResolver = resolver

        override fun getPackageManager(): PackageManager = packages

        override fun getSystemService(name: String): Any? = when (name) {
            "connectivity" -> connectivity
            "phone" -> telephony
            else -> null
        }
    }

    private val context = FakeContext()
    private val options = CheckOptions(cleartextHosts = setOf("service.test"), allowLoopback = true)
    private val cellular = Network().apply { names["service.test"] = InetAddress.getByName("127.0.0.1") }
    private val server = ServerSocket(0, 5, InetAddress.getByName("127.0.0.1"))
    private val url get() = "http://service.test:${server.localPort}/v1/checks/c-1/redirect"

    @Before
    fun permitCleartext() {
        NetworkSecurityPolicy.getInstance().permittedHosts.add("service.test")
    }

    @After
    fun cleanUp() {
        server.close()
        NetworkSecurityPolicy.getInstance().permittedHosts.clear()
        Build.VERSION.SDK_INT = 34
        assertTrue("a network request was not withdrawn", context.connectivity.registered.isEmpty())
    }

    /** Accepts one connection, reads the request and passes the connection on. */
    private fun serve(action: (java.net.Socket) -> Unit) {
        val task = Runnable {
            server.accept().use { socket ->
                val input = socket.getInputStream().bufferedReader()
                while (input.readLine()?.isNotEmpty() == true) continue
                action(socket)
            }
        }
        Thread(task).apply { isDaemon = true }.start()
    }

    private fun serveCode() = serve {
        val body = """{"check_id":"c-1","code":"abc"}"""
        val head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n"
        it.getOutputStream().write((head + body).toByteArray())
    }

    private fun answer(action: (NetworkCallback) -> Unit) {
        // As the system does: from another thread, some time after the request.
        context.connectivity.onRequest = java.util.function.Consumer { callback ->
            Thread { action(callback) }.apply { isDaemon = true }.start()
        }
    }

    private fun verifier(timeoutMillis: Long = 60_000) = MobileVerifier(context, options, timeoutMillis)

    private fun assertProblem(expected: MobileDataProblem, outcome: CheckOutcome) {
        if (outcome !is CheckOutcome.NotOnMobileData) return fail("$outcome")
        assertEquals(expected, outcome.reason)
    }

    @Test
    fun verifiesOverTheCellularNetwork() {
        serveCode()
        answer { it.onAvailable(cellular) }
        val outcome = verifier().verifySilently(url)
        assertTrue("$outcome", outcome is CheckOutcome.Completed && outcome.code == "abc")
        val request = context.connectivity.requests.single()
        assertEquals(setOf(0), request.transports)
        assertEquals(setOf(12), request.capabilities)
    }

    @Test
    fun namesAreResolvedByTheNetwork() {
        answer { it.onAvailable(Network()) }
        val outcome = verifier().verifySilently(url)
        assertTrue("$outcome", outcome is CheckOutcome.ConnectionFailed)
    }

    @Test
    fun aNetworkThatIsUnavailableOrLateIsReported() {
        answer { it.onUnavailable() }
        assertProblem(MobileDataProblem.NETWORK_UNAVAILABLE, verifier().verifySilently(url))
        answer { }
        assertProblem(MobileDataProblem.NETWORK_UNAVAILABLE, verifier(50).verifySilently(url))
    }

    @Test
    fun aRequestThatTheSystemReleasedIsNoError() {
        context.connectivity.onRequest = java.util.function.Consumer { callback ->
            context.connectivity.registered.remove(callback)
            callback.onUnavailable()
        }
        assertProblem(MobileDataProblem.NETWORK_UNAVAILABLE, verifier().verifySilently(url))
    }

    @Test
    fun aLostNetworkEndsTheCheck() {
        lateinit var callback: NetworkCallback
        val released = CountDownLatch(1)
        serve {
            callback.onLost(Network())
            callback.onLost(cellular)
            released.await()
        }
        answer {
            callback = it
            it.onAvailable(cellular)
        }
        val outcome = verifier().verifySilently(url)
        released.countDown()
        assertProblem(MobileDataProblem.NETWORK_LOST, outcome)
        assertEquals("service.test", outcome.trace.single().host)
    }

    @Test
    fun callsCanBeCancelledWhileWaitingAndWhileRunning() {
        val waiting = Cancellation()
        answer { waiting.cancel() }
        assertTrue(verifier().verifySilently(url, cancellation = waiting) is CheckOutcome.Cancelled)

        val running = Cancellation()
        val released = CountDownLatch(1)
        serve {
            running.cancel()
            released.await()
        }
        answer { it.onAvailable(cellular) }
        assertTrue(verifier().verifySilently(url, cancellation = running) is CheckOutcome.Cancelled)
        released.countDown()

        val before = Cancellation().apply { cancel() }
        assertTrue(verifier().verifySilently(url, cancellation = before) is CheckOutcome.Cancelled)
    }

    @Test
    fun anInterruptEndsTheWait() {
        val requested = CountDownLatch(1)
        answer { requested.countDown() }
        val outcome = CompletableFuture<CheckOutcome>()
        val thread = Thread { outcome.complete(verifier().verifySilently(url)) }
        thread.start()
        requested.await()
        thread.interrupt()
        assertTrue(outcome.get() is CheckOutcome.Cancelled)
    }

    @Test
    fun theRequestIsWithdrawnAfterAnException() {
        answer { it.onAvailable(cellular.apply { socketFactory = null }) }
        try {
            verifier().verifySilently(url)
            fail("expected an exception")
        } catch (expected: NullPointerException) {
            assertTrue(context.connectivity.registered.isEmpty())
        }
    }

    @Test
    fun aMissingPermissionIsAnError() {
        context.connectivity.onRequest = java.util.function.Consumer {
            context.connectivity.registered.clear()
            throw SecurityException("CHANGE_NETWORK_STATE")
        }
        try {
            verifier().verifySilently(url)
            fail("expected an exception")
        } catch (expected: SecurityException) {
            assertEquals("CHANGE_NETWORK_STATE", expected.message)
        }
    }

    @Test
    fun theNetworkSecurityPolicyCanForbidPlainHttp() {
        NetworkSecurityPolicy.getInstance().permittedHosts.clear()
        answer { it.onAvailable(cellular) }
        assertTrue(verifier().verifySilently(url) is CheckOutcome.DowngradeRefused)
    }

    @Test
    fun theMainThreadIsRefused() {
        Looper.CURRENT.set(Looper.getMainLooper())
        try {
            verifier().verifySilently(url)
            fail("expected an exception")
        } catch (expected: IllegalStateException) {
            assertTrue(context.connectivity.requests.isEmpty())
        } finally {
            Looper.CURRENT.remove()
        }
    }

    @Test
    fun problemsAreFoundBeforehand() {
        fun problem(change: FakeContext.() -> Unit) = MobileVerifier(FakeContext().apply(change)).mobileDataProblem()

        assertNull(problem { })
        assertEquals(MobileDataProblem.NO_TELEPHONY, problem { packages.features.clear() })
        assertEquals(MobileDataProblem.NO_TELEPHONY, problem { telephony = null })
        assertEquals(MobileDataProblem.AIRPLANE_MODE, problem { resolver.settings["airplane_mode_on"] = 1 })
        for (state in 1..4) assertEquals(MobileDataProblem.NO_SIM, problem { telephony!!.simState = state })
        for (state in listOf(0, 5, 6)) assertNull(problem { telephony!!.simState = state })
        assertEquals(MobileDataProblem.TURNED_OFF, problem { telephony!!.dataEnabled = false })
        assertNull(problem { telephony!!.forbidden = true })
        Build.VERSION.SDK_INT = 25
        assertNull(problem { telephony!!.dataEnabled = false })
    }

    @Test
    fun anActiveMobileNetworkAnswersTheQuestion() {
        fun usable(vararg transports: Int): Boolean {
            context.resolver.settings["airplane_mode_on"] = 1
            context.connectivity.activeNetwork = cellular
            context.connectivity.activeCapabilities = NetworkCapabilities().apply {
                capabilities.add(12)
                this.transports.addAll(transports.toList())
            }
            return verifier().canUseMobileData()
        }
        assertTrue(usable(0))
        assertFalse(usable(1))
        assertFalse("a VPN over mobile data", usable(0, 4))
    }

    @Test
    fun aKnownProblemRequestsNoNetwork() {
        context.resolver.settings["airplane_mode_on"] = 1
        assertFalse(verifier().canUseMobileData())
        assertProblem(MobileDataProblem.AIRPLANE_MODE, verifier().verifySilently(url))
        assertTrue(context.connectivity.requests.isEmpty())
    }

    @Test
    fun theSmsIntentHasReceiverAndText() {
        val intent = smsIntent("+447700900001", "VERIFY 7K3QX9M20D")
        assertEquals("android.intent.action.SENDTO", intent.action)
        assertEquals("smsto:+447700900001", intent.data.toString())
        assertEquals(mapOf("sms_body" to "VERIFY 7K3QX9M20D"), intent.extras)
        for (number in listOf("", "+", "12", "+44 7700", "+44?body=x", "+4477009000011234", "\u0661\u0662\u0663")) {
            try {
                smsIntent(number, "text")
                fail(number)
            } catch (expected: IllegalArgumentException) {
                continue
            }
        }
    }
}
