number = Ihre Nummer mit den Endziffern { $tail }
not-your-number = Nicht Ihre Nummer?
sandbox = Testmodus: nur simulierte Telefonnummern
time-left = Restzeit:
support = Brauchen Sie Hilfe?
language = Sprache

## Silent check by the mobile operator

start-title = Telefonnummer bestätigen
start-text = { $brand } bittet Sie zu bestätigen, dass dieses Telefon Ihre Nummer hat. Schalten Sie mobile Daten ein und WLAN aus und fahren Sie dann fort.
start-button = Telefon bestätigen
start-computer-text = { $brand } möchte Ihre Telefonnummer bestätigen. Fahren Sie auf dem Telefon mit dieser Nummer fort:
scan-camera = Richten Sie die Kamera Ihres Telefons auf den Code.
start-open = Öffnen Sie den angezeigten Link.
start-follow = Folgen Sie dort den Schritten. Diese Seite geht von selbst weiter.
start-here = Auf diesem Gerät fortfahren
start-scan-label = QR-Code mit dieser Seite
wallet-text = { $brand } möchte bestätigen, dass dieses Telefon Ihre Nummer hat. Tippen Sie auf die Schaltfläche und stimmen Sie im nächsten Fenster zu. WLAN kann eingeschaltet bleiben.
wallet-button = Mit Telefon bestätigen
wallet-again = Tippen Sie noch einmal auf die Schaltfläche, um fortzufahren.
silent-title = Ihre Nummer wird bestätigt
silent-text = Ihr Mobilfunkanbieter bestätigt Ihre Nummer. Das dauert wenige Sekunden.
continue = Weiter
other-way = Anderen Weg versuchen
stalled-title = Noch keine Antwort
stalled-text = Ihr Mobilfunkanbieter hat nicht geantwortet. Versuchen Sie es noch einmal oder wählen Sie einen anderen Weg.
confirming-title = Fast fertig
confirming-text = Ihr Mobilfunkanbieter hat geantwortet. { $brand } schließt die Prüfung ab.
confirming-own-text = Ihr Mobilfunkanbieter hat geantwortet. Nur noch ein Schritt.
confirming-elsewhere = Schließen Sie dort ab, wo Sie begonnen haben. Diese Seite geht von selbst weiter.
stalled-only-text = Ihr Mobilfunkanbieter hat nicht geantwortet. Prüfen Sie, ob mobile Daten eingeschaltet sind, und versuchen Sie es noch einmal.
ask-whether-to-stop-title = Hier beenden?
ask-whether-to-stop-text = Es gibt keinen anderen Weg, Ihre Nummer zu bestätigen.
elsewhere-title = Weiter auf Ihrem Telefon
elsewhere-text = Ihre Nummer wird auf Ihrem Telefon oder in einem anderen Browser bestätigt. Diese Seite geht von selbst weiter.
allow-cookies = Dieser Schritt braucht ein Cookie, das Ihr Browser blockiert hat. Erlauben Sie Cookies für diese Seite und versuchen Sie es noch einmal.

## Text message from the user to us

text-title = Senden Sie uns eine SMS
text-text = Senden Sie die folgende Nachricht unverändert von dem Telefon, das Sie bestätigen möchten. Es gilt der übliche SMS-Preis Ihres Anbieters.
text-warning = Senden Sie diese SMS nur, wenn Sie den Vorgang selbst begonnen haben.
text-computer-text = Senden Sie uns eine SMS von dem Telefon, das Sie bestätigen möchten. Es gilt der übliche SMS-Preis Ihres Anbieters.
text-open = Öffnen Sie die angezeigte Nachricht.
text-send = Senden Sie sie unverändert.
text-by-hand = Oder die Nachricht selbst eintippen
text-button = Nachrichten-App öffnen
text-scan-label = QR-Code mit der SMS
text-receiver = An
text-body = Nachricht
copy-receiver = Nummer kopieren
copy-body = Nachricht kopieren
copied = Kopiert
copy-failed = Ihr Browser hat das Kopieren blockiert. Der Text ist markiert: Kopieren Sie ihn selbst.
text-waiting = Wir warten auf Ihre Nachricht …
text-cannot = Ich kann keine SMS senden
other-sender-title = Bitte von der anderen SIM senden
other-sender-text = Diese SMS kam von einer anderen Nummer. Senden Sie sie noch einmal mit der SIM, deren Nummer auf { $tail } endet.
received-title = Wir haben eine Nachricht erhalten
received-text = Wir prüfen sie. Wenn diese Seite nicht in wenigen Sekunden weitergeht, senden Sie die folgende Nachricht noch einmal unverändert.
ask-whether-to-give-up-title = Sie können keine SMS senden?
ask-whether-to-give-up-text = Ohne sie können wir Ihre Nummer nicht bestätigen.
ask-whether-to-give-up-yes = Ohne Bestätigung beenden
ask-if-wrong-number-title = Nicht Ihre Nummer?
ask-if-wrong-number-text = { $brand } möchte die Nummer mit den Endziffern { $tail } bestätigen. Ist es nicht Ihre, beenden Sie hier.
ask-if-wrong-number-yes = Das ist nicht meine Nummer
ask-no = Zurück

## SIM Swap check

sim-title = Noch eine Prüfung
sim-text = Wir fragen Ihren Mobilfunkanbieter, ob Ihre SIM-Karte kürzlich gewechselt wurde.

## Results

done-title = Nummer bestätigt
done-text = Vielen Dank. Ihre Telefonnummer ist bestätigt.
mismatch-title = Nummer nicht bestätigt
mismatch-phone-text = Das ist nicht die Nummer dieses Telefons. Prüfen Sie die Nummer, die Sie { $brand } gegeben haben, und versuchen Sie es noch einmal.
mismatch-text = Die Nummer, die geantwortet hat, ist nicht die, die Sie { $brand } gegeben haben. Prüfen Sie die Nummer und versuchen Sie es noch einmal.
failed-title = Wir konnten Ihre Nummer nicht bestätigen
failed-text = Keiner der verfügbaren Wege war erfolgreich. Kehren Sie zu { $brand } zurück, um es erneut zu versuchen.
given-up-title = Nummer nicht bestätigt
given-up-text = Sie haben vor der Bestätigung beendet. Gehen Sie zurück zu { $brand }, um es noch einmal zu versuchen.
wrong-number-title = Danke für den Hinweis
wrong-number-text = Es wurde nichts bestätigt. Gehen Sie zurück zu { $brand }, um Ihre Nummer einzugeben.
cancelled-title = Nicht mehr nötig
cancelled-text = { $brand } hat diese Bestätigung abgebrochen.
expired-title = Dieser Link ist abgelaufen
expired-text = Die Nummer wurde nicht rechtzeitig bestätigt. Kehren Sie zu { $brand } zurück, um neu zu beginnen.
return-link = Zurück zu { $brand }
close = Sie können diese Seite jetzt schließen.

## Errors

unknown-title = Dieser Link ist ungültig
unknown-text = Prüfen Sie, ob Sie den vollständigen Link geöffnet haben, oder beginnen Sie neu auf der Website, von der Sie kommen.
busy-title = Zu viele Versuche
busy-text = Warten Sie eine Minute und versuchen Sie es dann erneut.
unavailable-title = Etwas ist schiefgegangen
unavailable-text = Die Seite ist gerade nicht verfügbar. Versuchen Sie es in einer Minute erneut.
refused-title = Öffnen Sie die Seite erneut
refused-text = Zu Ihrer Sicherheit können Sie nur von dieser Seite selbst aus fortfahren.
retry = Erneut versuchen

## Page of a single check, whose link was opened in a browser

enter-code-text = Geben Sie diesen Code in der App oder auf der Website ein, von der Sie kommen. Er gilt einmal und läuft bald ab.
device-failed-text = Ihr Mobilfunkanbieter konnte Ihre Nummer nicht bestätigen. Kehren Sie zur App oder Website zurück, von der Sie kommen, um einen anderen Weg zu versuchen.
not-mobile-title = Dieses Telefon nutzt keine mobilen Daten
not-mobile-text = Ihre Nummer lässt sich nur über mobile Daten bestätigen. Schalten Sie WLAN aus, kehren Sie zur App oder Website zurück, von der Sie kommen, und versuchen Sie es erneut.
used-title = Dieser Link wurde bereits verwendet
other-browser-title = In einem anderen Browser begonnen
other-browser-text = Es wurde nichts bestätigt. Haben Sie dies selbst begonnen, gehen Sie zurück in den Browser, in dem Sie begonnen haben. Sonst können Sie diese Seite schließen.
start-again-text = Kehren Sie zur App oder Website zurück, von der Sie kommen, um neu zu beginnen.
other-browser-cookies = Ist es noch derselbe Browser, erlauben Sie Cookies und beginnen Sie neu.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Bei { $brand } anmelden
sign-in-text = Geben Sie Ihre Mobilnummer ein. Danach prüfen wir, ob sie Ihnen gehört.
sign-in-country = Land oder Region
sign-in-choose-country = Bitte wählen …
sign-in-number = Mobilnummer
sign-in-hint = Mit oder ohne Landesvorwahl
sign-in-sandbox-hint = Verwenden Sie eine simulierte Nummer, zum Beispiel { $example }
sign-in-privacy = Wir verwenden Ihre Nummer nur, um Sie bei { $brand } anzumelden.
sign-in-discover = Dieses Telefon verwenden
sign-in-cancel = Abbrechen
sign-in-enter-number = Stattdessen Nummer eingeben
sign-in-stalled-text = Ihr Mobilfunkanbieter hat nicht geantwortet. Versuchen Sie es noch einmal oder geben Sie Ihre Nummer ein.
sign-in-invalid = Das sieht nicht wie eine Telefonnummer aus. Prüfen Sie sie und versuchen Sie es noch einmal.
sign-in-not-supported = Diese Nummer können wir nicht bestätigen. Versuchen Sie es mit einer anderen Mobilnummer.
sign-in-too-many-attempts = Zu viele Versuche mit dieser Nummer. Versuchen Sie es später noch einmal oder mit einer anderen Nummer.
sign-in-try-later = Wir können gerade keine Nummern prüfen. Versuchen Sie es in einer Minute erneut.
sign-in-missing-country = Wählen Sie Ihr Land oder beginnen Sie die Nummer mit + und der Landesvorwahl.
sign-in-ended-title = Weiter, wo Sie begonnen haben
sign-in-ended-text = Hier gibt es nichts mehr zu tun. Gehen Sie zurück in den Browser, in dem Sie die Anmeldung begonnen haben.
sign-in-cancelled-title = Anmeldung abgebrochen
sign-in-cancelled-text = Sie sind nicht angemeldet. Gehen Sie zurück zu { $brand }, um es noch einmal zu versuchen.
sign-in-expired-title = Das hat zu lange gedauert
sign-in-expired-text = Zu Ihrer Sicherheit müssen Sie neu beginnen. Gehen Sie zurück zu { $brand }.
sign-in-failed-text = Wir konnten Sie nicht anmelden. Gehen Sie zurück zu { $brand }, um es noch einmal zu versuchen.
sign-in-refused-title = Wir können Sie nicht anmelden
sign-in-refused-text = Die App oder Website, von der Sie kommen, hat eine ungültige Anfrage gestellt. Gehen Sie zurück und versuchen Sie es erneut oder fragen Sie deren Support.
sign-in-detail = Details für Entwickler
