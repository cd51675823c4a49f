number = Uw nummer dat eindigt op { $tail }
not-your-number = Niet uw nummer?
sandbox = Testmodus: alleen gesimuleerde telefoonnummers
time-left = Resterende tijd:
support = Hulp nodig?
language = Taal

## Silent check by the mobile operator

start-title = Bevestig uw telefoonnummer
start-text = { $brand } vraagt u te bevestigen dat deze telefoon uw nummer heeft. Zet mobiele data aan en wifi uit en ga dan verder.
start-button = Telefoon bevestigen
start-computer-text = { $brand } wil uw telefoonnummer bevestigen. Ga verder op de telefoon met dat nummer:
scan-camera = Richt de camera van uw telefoon op de code.
start-open = Open de link die verschijnt.
start-follow = Volg daar de stappen. Deze pagina gaat vanzelf verder.
start-here = Doorgaan op dit apparaat
start-scan-label = QR-code met deze pagina
wallet-text = { $brand } wil bevestigen dat deze telefoon uw nummer heeft. Tik op de knop en ga op het volgende scherm akkoord. Wifi kan aan blijven.
wallet-button = Met telefoon bevestigen
wallet-again = Tik nog een keer op de knop om door te gaan.
silent-title = Uw nummer wordt bevestigd
silent-text = Uw mobiele provider bevestigt uw nummer. Dit duurt enkele seconden.
continue = Doorgaan
other-way = Andere manier proberen
stalled-title = Nog geen antwoord
stalled-text = Uw mobiele provider heeft niet geantwoord. Probeer het opnieuw of kies een andere manier.
confirming-title = Bijna klaar
confirming-text = Uw mobiele provider heeft geantwoord. { $brand } rondt de controle af.
confirming-own-text = Uw mobiele provider heeft geantwoord. Nog één stap en u bent klaar.
confirming-elsewhere = Rond af waar u bent begonnen. Deze pagina gaat vanzelf verder.
stalled-only-text = Uw mobiele provider heeft niet geantwoord. Controleer of mobiele data aanstaat en probeer het opnieuw.
ask-whether-to-stop-title = Hier stoppen?
ask-whether-to-stop-text = Er is geen andere manier om uw nummer te bevestigen.
elsewhere-title = Ga verder op uw telefoon
elsewhere-text = Uw nummer wordt bevestigd op uw telefoon of in een andere browser. Deze pagina gaat vanzelf verder.
allow-cookies = Deze stap heeft een cookie nodig die uw browser heeft geblokkeerd. Sta cookies toe voor deze pagina en probeer het opnieuw.

## Text message from the user to us

text-title = Stuur ons een sms
text-text = Stuur het onderstaande bericht ongewijzigd vanaf de telefoon die u wilt bevestigen. Het gebruikelijke sms-tarief van uw provider is van toepassing.
text-warning = Stuur deze sms alleen als u dit zelf bent begonnen.
text-computer-text = Stuur ons een sms vanaf de telefoon die u wilt bevestigen. Het gebruikelijke sms-tarief van uw provider is van toepassing.
text-open = Open het bericht dat verschijnt.
text-send = Verstuur het ongewijzigd.
text-by-hand = Of typ het bericht zelf
text-button = Berichtenapp openen
text-scan-label = QR-code met de sms
text-receiver = Aan
text-body = Bericht
copy-receiver = Nummer kopiëren
copy-body = Bericht kopiëren
copied = Gekopieerd
copy-failed = Uw browser heeft het kopiëren geblokkeerd. De tekst is geselecteerd: kopieer deze zelf.
text-waiting = Wachten op uw bericht…
text-cannot = Ik kan geen sms sturen
other-sender-title = Stuur het vanaf de andere simkaart
other-sender-text = Die sms kwam van een ander nummer. Stuur hem opnieuw met de simkaart waarvan het nummer eindigt op { $tail }.
received-title = We hebben een bericht ontvangen
received-text = We controleren het. Gaat deze pagina niet binnen enkele seconden verder, stuur dan het onderstaande bericht nog eens ongewijzigd.
ask-whether-to-give-up-title = Kunt u geen sms sturen?
ask-whether-to-give-up-text = Zonder sms kunnen we uw nummer niet bevestigen.
ask-whether-to-give-up-yes = Stoppen zonder bevestiging
ask-if-wrong-number-title = Niet uw nummer?
ask-if-wrong-number-text = { $brand } vraagt om het nummer te bevestigen dat eindigt op { $tail }. Is het niet van u, stop dan hier.
ask-if-wrong-number-yes = Dat is niet mijn nummer
ask-no = Terug

## SIM Swap check

sim-title = Nog één controle
sim-text = We vragen uw mobiele provider of uw simkaart onlangs is vervangen.

## Results

done-title = Nummer bevestigd
done-text = Dank u wel. Uw telefoonnummer is bevestigd.
mismatch-title = Nummer niet bevestigd
mismatch-phone-text = Dat is niet het nummer van deze telefoon. Controleer het nummer dat u aan { $brand } gaf en probeer het opnieuw.
mismatch-text = Het nummer dat antwoordde, is niet het nummer dat u aan { $brand } gaf. Controleer het nummer en probeer het opnieuw.
failed-title = We konden uw nummer niet bevestigen
failed-text = Geen van de beschikbare manieren is gelukt. Ga terug naar { $brand } om het opnieuw te proberen.
given-up-title = Nummer niet bevestigd
given-up-text = U bent gestopt voordat uw nummer was bevestigd. Ga terug naar { $brand } om het opnieuw te proberen.
wrong-number-title = Bedankt voor de melding
wrong-number-text = Er is niets bevestigd. Ga terug naar { $brand } om uw nummer in te voeren.
cancelled-title = Niet meer nodig
cancelled-text = { $brand } heeft deze bevestiging geannuleerd.
expired-title = Deze link is verlopen
expired-text = Het nummer is niet op tijd bevestigd. Ga terug naar { $brand } om opnieuw te beginnen.
return-link = Terug naar { $brand }
close = U kunt deze pagina nu sluiten.

## Errors

unknown-title = Deze link is niet geldig
unknown-text = Controleer of u de volledige link hebt geopend, of begin opnieuw op de site die u hierheen heeft gestuurd.
busy-title = Te veel pogingen
busy-text = Wacht een minuut en probeer het dan opnieuw.
unavailable-title = Er is iets misgegaan
unavailable-text = De pagina is op dit moment niet beschikbaar. Probeer het over een minuut opnieuw.
refused-title = Open de pagina opnieuw
refused-text = Voor uw veiligheid kunt u alleen vanaf deze pagina zelf verdergaan.
retry = Opnieuw proberen

## Page of a single check, whose link was opened in a browser

enter-code-text = Voer deze code in de app of op de site in die u hierheen heeft gestuurd. De code is één keer geldig en verloopt snel.
device-failed-text = Uw mobiele provider kon uw nummer niet bevestigen. Ga terug naar de app of site die u hierheen heeft gestuurd om een andere manier te proberen.
not-mobile-title = Deze telefoon gebruikt geen mobiele data
not-mobile-text = Uw nummer kan alleen via mobiele data worden bevestigd. Zet wifi uit, ga terug naar de app of site die u hierheen heeft gestuurd en probeer het opnieuw.
used-title = Deze link is al gebruikt
other-browser-title = In een andere browser begonnen
other-browser-text = Er is niets bevestigd. Bent u dit zelf begonnen, ga dan terug naar de browser waarin u begon. Anders kunt u deze pagina sluiten.
start-again-text = Ga terug naar de app of site die u hierheen heeft gestuurd om opnieuw te beginnen.
other-browser-cookies = Zit u nog in die browser, sta dan cookies toe en begin opnieuw.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Inloggen bij { $brand }
sign-in-text = Voer uw mobiele nummer in. Daarna controleren we of het van u is.
sign-in-country = Land of regio
sign-in-choose-country = Kies…
sign-in-number = Mobiel nummer
sign-in-hint = Met of zonder landnummer
sign-in-sandbox-hint = Gebruik een gesimuleerd nummer, bijvoorbeeld { $example }
sign-in-privacy = We gebruiken uw nummer alleen om u in te loggen bij { $brand }.
sign-in-discover = Deze telefoon gebruiken
sign-in-cancel = Annuleren
sign-in-enter-number = Zelf het nummer invoeren
sign-in-stalled-text = Uw mobiele provider heeft niet geantwoord. Probeer het opnieuw of voer uw nummer in.
sign-in-invalid = Dit lijkt geen telefoonnummer. Controleer het en probeer het opnieuw.
sign-in-not-supported = We kunnen dit nummer niet bevestigen. Probeer een ander mobiel nummer.
sign-in-too-many-attempts = Te veel pogingen met dit nummer. Probeer het later opnieuw of gebruik een ander nummer.
sign-in-try-later = We kunnen nu geen nummers controleren. Probeer het over een minuut opnieuw.
sign-in-missing-country = Kies uw land of begin het nummer met + en het landnummer.
sign-in-ended-title = Ga verder waar u begon
sign-in-ended-text = Hier hoeft u niets meer te doen. Ga terug naar de browser waarin u begon met inloggen.
sign-in-cancelled-title = Inloggen geannuleerd
sign-in-cancelled-text = U bent niet ingelogd. Ga terug naar { $brand } om het opnieuw te proberen.
sign-in-expired-title = Dit duurde te lang
sign-in-expired-text = Voor uw veiligheid moet u opnieuw beginnen. Ga terug naar { $brand }.
sign-in-failed-text = We konden u niet inloggen. Ga terug naar { $brand } om het opnieuw te proberen.
sign-in-refused-title = We kunnen u niet inloggen
sign-in-refused-text = De app of site waar u vandaan komt, heeft een ongeldig verzoek gedaan. Ga terug en probeer het opnieuw, of vraag de klantenservice om hulp.
sign-in-detail = Details voor ontwikkelaars
