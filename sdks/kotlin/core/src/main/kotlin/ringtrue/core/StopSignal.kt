package ringtrue.core

import java.io.Closeable
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit

/** The call was stopped; [StopSignal.reason] says why. */
internal class StoppedException : Exception()

/**
 * Ends blocking calls at a deadline or on cancellation by closing what they wait for.
 *
 * Socket time-outs alone are not enough: they restart with every byte, so a server that sends slowly could hold a TLS
 * handshake or record for any length of time.
 */
internal class StopSignal : Closeable {
    enum class Reason { CANCELLED, TIMED_OUT }

    private val lock = Any()
    private val guarded = LinkedHashSet<Closeable>()
    private val watchdog =
        ScheduledThreadPoolExecutor(1) { task -> Thread(task, "ringtrue-watchdog").apply { isDaemon = true } }
    private var stopReason: Reason? = null
    private var deadlineNanos = 0L

    val reason: Reason?
        get() = synchronized(lock) { stopReason }

    /** Milliseconds until the current deadline, at least 1. */
    val remainingMillis: Int
        get() {
            val nanos = synchronized(lock) { deadlineNanos } - System.nanoTime()
            return TimeUnit.NANOSECONDS.toMillis(nanos).coerceIn(1, Int.MAX_VALUE.toLong()).toInt()
        }

    /** Runs [action] with a deadline after which everything guarded is closed. */
    fun <T> withDeadline(millis: Long, action: () -> T): T {
        synchronized(lock) { deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis) }
        val timer = watchdog.schedule({ stop(Reason.TIMED_OUT) }, millis, TimeUnit.MILLISECONDS)
        try {
            return action()
        } finally {
            timer.cancel(false)
        }
    }

    /** Returns at once. The first reason counts. */
    fun stop(reason: Reason) {
        synchronized(lock) {
            if (stopReason != null) return
            stopReason = reason
        }
        try {
            // On the watchdog's thread: Android does not permit network calls, such as closing TLS, on the main thread.
            watchdog.execute { synchronized(lock) { guarded.toList() }.asReversed().forEach(::closeQuietly) }
        } catch (ended: RejectedExecutionException) {
            // The call has ended, and closed everything itself.
        }
    }

    fun throwIfStopped() {
        if (reason != null) throw StoppedException()
    }

    /** Closes [resource] when the call is stopped, until it is released. The last one guarded is closed first. */
    fun <T : Closeable> guard(resource: T): T {
        val stopped =
            synchronized(lock) {
                guarded.add(resource)
                stopReason != null
            }
        if (stopped) {
            closeQuietly(resource)
            throw StoppedException()
        }
        return resource
    }

    fun release(resource: Closeable) {
        synchronized(lock) { guarded.remove(resource) }
        closeQuietly(resource)
    }

    override fun close() {
        watchdog.shutdownNow()
    }

    companion object {
        fun closeQuietly(resource: Closeable) {
            try {
                resource.close()
            } catch (ignored: java.io.IOException) {
                // The connection is given up in any case.
            }
        }
    }
}
