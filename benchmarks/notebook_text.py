"""The sentences of the generated notebook: facts with their questions, facts that change, and everyday lines.

Every sentence is our own. Names in braces are filled in; the first of a fact's ``keys`` is different in each of its
instances, so that only one note answers its question.
"""

from typing import NamedTuple

WORDS: dict[str, tuple[str, ...]] = {
    "person": (
        "Mara", "Tobias", "Ines", "Yusuf", "Greta", "Pavel", "Noor", "Anselm", "Lucia", "Henrik", "Odile", "Ravi",
        "Sunniva", "Bruno", "Tamsin", "Emeka", "Livia", "Joris", "Amara", "Stellan",
    ),
    "project": (
        "Falcon", "Juniper", "Kestrel", "Marble", "Otter", "Quartz", "Saffron", "Tundra", "Willow", "Zephyr", "Basalt",
        "Cobalt",
    ),
    "customer": ("Nordlicht", "Bellweather", "Harrow Foods", "Castellan", "Pinecrest", "Vantage Rail", "Solmar"),
    "vendor": ("Hetzner", "Contabo", "Fastmail", "Cloudflare", "Linode", "Backblaze"),
    "city": ("Porto", "Ghent", "Tallinn", "Graz", "Malmö", "Bilbao", "Cork", "Lyon", "Brno", "Turin"),
    "standard": ("SOC 2", "ISO 27001", "PCI DSS", "TISAX"),
    "food": ("shellfish", "walnuts", "celery", "sesame", "lupin", "mustard"),
    "drink": ("green tea", "tomato juice", "oat milk", "ginger ale", "barley water"),
    "feature": ("bulk export", "dark theme", "audit trail", "single sign-on", "offline mode", "map view"),
    "database": ("Postgres", "MariaDB", "CockroachDB", "ScyllaDB", "DuckDB"),
    "tool": ("Grafana", "Jenkins", "Trello", "Sentry", "Zendesk"),
    "newtool": ("Perses", "Buildkite", "Linear", "GlitchTip", "Zammad"),
    "room": ("cedar room", "harbour room", "attic", "library", "glass room"),
    "hotel": ("Hotel Almada", "Pension Rosengarten", "Villa Toomas", "Casa Verde", "Hotel Kamp"),
    "book": ("The Salt Path", "Stoner", "Piranesi", "The Overstory", "Circe"),
    "child": ("Ottilie", "Balthasar", "Seraphina", "Leopold", "Philippa"),
    "cause": ("an expired certificate", "a full disk", "a wrong feature flag", "a leap-second bug", "a bad index"),
    "month": ("April", "June", "August", "September", "November"),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    "team": ("payments", "search", "mobile", "platform", "support", "data"),
    "time": ("nine", "half past nine", "ten", "half past two", "four"),
    "wifi": ("blue-heron", "kingfisher-5", "pelican-guest", "sandpiper", "grey-plover"),
}  # fmt: skip


class Fact(NamedTuple):
    """A sentence of a note and a question that only this sentence answers."""

    note: str
    question: str
    keys: tuple[str, ...]


FACTS = (
    Fact("{person} audits us for {standard} and wants the access logs by {month}.", "who audits us for {standard}?",
         ("standard", "person", "month")),
    Fact("{vendor} charges {n} euros per server and month.", "what do we pay {vendor} for each server?", ("vendor",)),
    Fact("{person} is allergic to {food}, tell the caterer.", "what can {person} not eat?", ("person", "food")),
    Fact("Agreed to leave the {feature} out of {project}.", "which part of {project} did we leave out?",
         ("project", "feature")),
    Fact("{project} uses {database} because the old database lost writes.",
         "which database does {project} use?", ("project", "database")),
    Fact("The wifi of the {city} office is called {wifi}.", "what is the name of the wifi in the {city} office?",
         ("city", "wifi")),
    Fact("{person} goes on parental leave in {month}, {other} covers the on-call.",
         "who takes over on-call when {person} is on leave?", ("person", "month", "other")),
    Fact("Booked the {hotel} for the offsite in {city}.", "where do we stay during the {city} offsite?",
         ("city", "hotel")),
    Fact("{person} lent me the book {book}.", "which book did I borrow from {person}?", ("person", "book")),
    Fact("Passed the complaint of {customer} about slow reports to {person}.",
         "who looks after the complaint of {customer}?", ("customer", "person")),
    Fact("{customer} renews for {k} years if we add the {feature}.", "what does {customer} want before it renews?",
         ("customer", "feature")),
    Fact("{project} was down for an hour because of {cause}.", "why was {project} down?", ("project", "cause")),
    Fact("We retire {tool} and move everything to {newtool}.", "what are we replacing {tool} with?",
         ("tool", "newtool")),
    Fact("{person}'s daughter {child} starts school in {month}.", "what is the name of {person}'s daughter?",
         ("person", "child", "month")),
    Fact("The retrospective of {project} takes place in the {room}.",
         "in which room is the retrospective of {project}?", ("project", "room")),
    Fact("{person} only drinks {drink}, never coffee.", "what does {person} like to drink?", ("person", "drink")),
    Fact("The budget of {project} is {n} thousand euros.", "how much money may {project} spend?", ("project",)),
    Fact("{person} and {other} review the design of the {feature}.", "who is reviewing the {feature} design?",
         ("feature", "person", "other")),
    Fact("Backups of {project} are deleted after {n} days.", "how long are backups of {project} kept?", ("project",)),
    Fact("The contract with {customer} ends on the 15th of {month}.", "when does the contract with {customer} run out?",
         ("customer", "month")),
)  # fmt: skip

#: What the long-term memory says: nothing here is dated, and nothing is filled in.
LASTING = (
    ("Prefers short answers with the conclusion first.", "how long should answers be?"),
    ("Works from home on Mondays and Fridays.", "on which days does the user work from home?"),
    ("Signs letters as Dr. A. Feldmann.", "how are letters signed?"),
    ("The family car is a grey estate from 2016.", "which car does the family drive?"),
    ("Vegetarian since university, eats eggs.", "is the user a vegetarian?"),
    ("Never schedule meetings before half past eight.", "how early may meetings start?"),
    ("The printer is in the cellar and needs black cartridge 603XL.", "which cartridge does the printer need?"),
    ("Tax adviser is Mrs. Okonkwo in Rosenheim.", "who is the tax adviser?"),
)


class Change(NamedTuple):
    """A fact with an old and a new version, asked with and without a word for the present."""

    old: str
    new: str
    question: str
    cue: str
    keys: tuple[str, ...]


CHANGES = (
    Change("{project} deploys on {weekday}.", "{project} deploys on {weekday2} from this week on.",
           "on which day does {project} deploy?", "on which day does {project} deploy now?", ("project", "weekday")),
    Change("{person} leads the {team} team.", "{other} leads the {team} team since the reshuffle.",
           "who leads the {team} team?", "who currently leads the {team} team?", ("team", "person", "other")),
    Change("The door code of the {city} office is {n}.", "The door code of the {city} office was changed to {m}.",
           "what is the door code of the {city} office?", "what is the current door code of the {city} office?",
           ("city",)),
    Change("{person} lives in {city}.", "{person} has moved and lives in {city2}.", "where does {person} live?",
           "where does {person} live now?", ("person", "city")),
    Change("{customer} pays {n} euros a seat.", "{customer} pays {m} euros a seat after the renewal.",
           "what does {customer} pay for a seat?", "what does {customer} pay for a seat at the moment?", ("customer",)),
    Change("{project} runs on release {k}.{n} of the framework.", "Upgraded {project}, it runs on release {j}.{m}.",
           "which release does {project} run on?", "what is the latest release that {project} runs on?", ("project",)),
    Change("{person}'s phone number is 0171 {n}55{k}.", "{person} has another phone number: 0160 {m}12{j}.",
           "what is {person}'s phone number?", "what is {person}'s current phone number?", ("person",)),
    Change("The standup of {project} is at {time}.", "The standup of {project} was moved to {time2}.",
           "when is the standup of {project}?", "when is the standup of {project} now?", ("project", "time")),
    Change("{project} costs {n} euros a month.", "{project} costs {m} euros a month.",
           "what does {project} cost?", "what does {project} cost now?", ("project",)),
    Change("Rent of the {city} flat: {n}0 euros.", "Rent of the {city} flat: {m}0 euros.",
           "how much is the rent of the {city} flat?", "how much is the rent of the {city} flat now?", ("city",)),
    Change("{person} is our contact at {customer}.", "{other} is our contact at {customer}.",
           "who is our contact at {customer}?", "who is our current contact at {customer}?", ("customer", "person")),
    Change("{person} writes the newsletter of {customer}.", "{other} took over the newsletter of {customer}.",
           "who writes the newsletter of {customer}?", "who writes the newsletter of {customer} today?",
           ("customer", "person")),
    Change("The {team} team tracks bugs with {tool}.", "The {team} team switched from {tool} to {newtool}.",
           "what does the {team} team track bugs with?", "what does the {team} team track bugs with now?", ("team",)),
)  # fmt: skip

#: The same in other languages, each once: old, new, question, question with a cue word.
FOREIGN_CHANGES = {
    "de": ("Der Müll wird mittwochs abgeholt.", "Der Müll wird ab heute freitags abgeholt.",
           "Wann wird der Müll abgeholt?", "Wann wird der Müll jetzt abgeholt?"),
    "fr": ("Le club de lecture se réunit chez Camille.", "Le club de lecture se réunit chez Bastien.",
           "Où se réunit le club de lecture ?", "Où se réunit actuellement le club de lecture ?"),
    "es": ("La clave del garaje es 3317.", "La clave del garaje cambió a 8052.", "¿Cuál es la clave del garaje?",
           "¿Cuál es la clave actual del garaje?"),
    "zh": ("周会定在星期二上午。", "周会改到星期四下午。", "周会是什么时候？", "现在周会是什么时候？"),
    "ja": ("駐車場の番号は12番です。", "駐車場の番号は27番に変わりました。", "駐車場の番号は何番ですか？",
           "現在の駐車場の番号は何番ですか？"),
    "ko": ("수영 강습은 화요일 저녁이다.", "수영 강습이 목요일 저녁으로 바뀌었다.", "수영 강습은 언제인가요?",
           "지금 수영 강습은 언제인가요?"),
}  # fmt: skip

#: Facts in other languages: a sentence and its question.
FOREIGN_FACTS = {
    "de": (
        ("Der Klempner kommt am Freitag wegen der Heizung.", "Wann kommt der Klempner?"),
        ("Die Rechnung der Zahnärztin ist erst im Herbst fällig.", "Wann muss ich die Zahnärztin bezahlen?"),
        ("Der Ersatzschlüssel liegt bei Nachbarin Weidner.", "Wer hat den Ersatzschlüssel?"),
        ("Onkel Heinz verträgt keine Haselnüsse.", "Was darf Onkel Heinz nicht essen?"),
        ("Die Werkstatt verlangt 480 Euro für neue Bremsen.", "Wie viel kosten die Bremsen?"),
        ("Die Lesung findet in der Stadtbücherei statt.", "Wo findet die Lesung statt?"),
    ),
    "fr": (
        ("Le plombier passe jeudi pour la chaudière.", "Quand passe le plombier ?"),
        ("Sophie est allergique aux crevettes.", "À quoi Sophie est-elle allergique ?"),
        ("Le double des clés est chez la gardienne.", "Qui garde le double des clés ?"),
        ("Le garage demande 350 euros pour les freins.", "Combien coûte la réparation des freins ?"),
        ("La réunion de parents aura lieu dans le gymnase.", "Où aura lieu la réunion de parents ?"),
        ("Antoine m'a prêté sa perceuse.", "Qui m'a prêté une perceuse ?"),
    ),
    "es": (
        ("El fontanero viene el jueves por la caldera.", "¿Cuándo viene el fontanero?"),
        ("Lucía no tolera la lactosa.", "¿Qué no tolera Lucía?"),
        ("La copia de las llaves la tiene el portero.", "¿Quién tiene la copia de las llaves?"),
        ("El taller pide 290 euros por los frenos.", "¿Cuánto cuestan los frenos?"),
        ("La reunión de vecinos será en el patio.", "¿Dónde será la reunión de vecinos?"),
        ("Diego me prestó su taladro.", "¿Quién me prestó el taladro?"),
    ),
    "zh": (
        ("水管工星期五来修暖气。", "水管工什么时候来？"),
        ("小林对花生过敏。", "小林不能吃什么？"),
        ("备用钥匙放在楼下王阿姨家。", "备用钥匙在哪里？"),
        ("修刹车要花八百块。", "修刹车要多少钱？"),
        ("家长会在体育馆举行。", "家长会在哪里举行？"),
        ("张伟借走了我的电钻。", "谁借走了电钻？"),
    ),
    "ja": (
        ("水道屋さんは金曜日に来る予定。", "水道屋さんはいつ来ますか？"),
        ("美咲さんはエビのアレルギーがある。", "美咲さんは何のアレルギーがありますか？"),
        ("予備の鍵は管理人室に預けた。", "予備の鍵はどこにありますか？"),
        ("ブレーキの修理代は三万円だった。", "ブレーキの修理代はいくらでしたか？"),
        ("保護者会は体育館で開かれる。", "保護者会はどこで開かれますか？"),
        ("健太にドリルを貸した。", "誰にドリルを貸しましたか？"),
    ),
    "ko": (
        ("배관공이 금요일에 보일러를 고치러 온다.", "배관공은 언제 오나요?"),
        ("지민은 새우 알레르기가 있다.", "지민은 무슨 알레르기가 있나요?"),
        ("여분 열쇠는 경비실에 맡겼다.", "여분 열쇠는 어디에 있나요?"),
        ("브레이크 수리비는 삼십만 원이다.", "브레이크 수리비는 얼마인가요?"),
        ("학부모 모임은 체육관에서 열린다.", "학부모 모임은 어디에서 열리나요?"),
        ("민수에게 전동 드릴을 빌려주었다.", "누구에게 전동 드릴을 빌려주었나요?"),
    ),
}  # fmt: skip

#: Everyday lines that share words with the facts and answer none of the questions.
EVERYDAY = (
    "Collected audit evidence with {person}.", "Answered a survey about {project}.", "Coffee with {person}.",
    "Call with {customer} about prices per seat.", "Paid the invoice of {vendor}.", "Two servers were rebooted.",
    "{person} asked about the backup of the test data.", "Wrote the release notes of {project}.",
    "Reviewed a pull request of {person} for {project}.", "The wifi was slow again.", "Lunch with {person} in town.",
    "Planned the sprint of {project} with {person}.", "{customer} sent a long list of wishes.",
    "Interviewed a candidate for the {team} team.", "The lift of the office was out of order.",
    "Train to {city} and back.", "Renewed the parking permit.", "Long mail to {customer} about the schedule.",
    "Cleaned up the board of {project}.", "{person} was ill today.", "Swam a kilometre before work.",
    "Bought bread, cheese and apples.", "Watched a talk about databases.", "Fixed a flaky test in {project}.",
    "{person} showed the new dashboards.", "Ordered a desk lamp.", "Dinner with the neighbours.",
    "Sorted the mail and threw away catalogues.", "Pairing with {person} on {project} until late.",
    "Moved a meeting with {customer} to next week.", "Read two chapters.", "Rain all day.",
    "Helped {person} with the expense report.", "Discussed names for the next release with {person}.",
    "Voted on the colour of the stickers.", "{project} had a quiet day.", "Updated the onboarding page.",
    "The server room was cold.", "Walked along the river.", "Phone call with the insurance.",
)  # fmt: skip
FOREIGN_EVERYDAY = {
    "de": ("Mit der Nachbarin über den Garten gesprochen.", "Rechnungen sortiert und Altpapier weggebracht.",
           "Lange in der Werkstatt gewartet."),
    "fr": ("Courses au marché avec Sophie.", "Le garage était fermé aujourd'hui.", "Longue réunion sans décision."),
    "es": ("Paseo por el patio con los vecinos.", "Compré llaves inglesas y tornillos.", "Reunión larga en el taller."),
    "zh": ("和王阿姨聊了一会儿。", "下午去体育馆打球。", "今天暖气不太热。"),
    "ja": ("体育館でバドミントンをした。", "管理人さんに挨拶した。", "エビチリを作った。"),
    "ko": ("체육관에서 배드민턴을 쳤다.", "경비 아저씨와 인사했다.", "새우 볶음밥을 먹었다."),
}  # fmt: skip

#: Lines with an identifier, and how one asks for it in a sentence.
IDENTIFIERS = {
    "ticket": ("Closed {id}: the total was rounded twice.", "what was the matter with {id}?"),
    "hash": ("Rolled back to commit {id} before lunch.", "when did we roll back to {id}?"),
    "version": ("Pinned the driver at {id} until the bug is fixed.", "why is {id} pinned?"),
    "error": ("The importer stopped with {id} on large files.", "which program fails with {id}?"),
    "path": ("Moved the tax rules into {id} with tests.", "what did we put into {id}?"),
}

#: The hard version: these sentences stand whole in forty other notes, with another identifier.
HARD_QUESTIONS = {
    "ticket": "what did the team decide about ticket {id} in the weekly review?",
    "hash": "which part of the service was changed by commit {id} last spring?",
    "version": "why did the build break after the upgrade to {id} on the server?",
    "error": "which customer reported the error {id} in the export of invoices?",
    "path": "who rewrote the module {id} for the new billing rules?",
}
HARD_ANSWERS = {
    "ticket": "{id}: closed without a change.",
    "hash": "{id} touched the login page.",
    "version": "{id} needs a newer compiler.",
    "error": "{id} was seen at Solmar.",
    "path": "Odile rewrote {id}.",
}

#: Questions that no note answers; half of them name people and projects that the notes are full of.
ABSENT = (
    "what is my passport number?", "what is the name of my hamster?", "when did we sell the sailing boat?",
    "which university did my grandfather attend?", "what is the blood group of {person}?",
    "how tall is {person}?", "which zodiac sign is {person}?", "who composed the anthem of {project}?",
    "what is the licence plate of {person}'s motorcycle?", "which dentist treats {person}'s wisdom teeth?",
    "how many goals did the striker score in the final?", "what is the recipe for grandmother's plum dumplings?",
    "which chromosome carries the mutation?", "how deep is the lake behind the cabin?",
    "what is the boiling point of mercury?", "when does the museum of glass open on holidays?",
    "which orchestra does {person} conduct?", "what did the astronomer discover near Saturn?",
    "who painted the ceiling of the chapel?", "how much does a kilo of saffron threads cost in Tehran?",
    "what is the IBAN of {person}?", "which vaccine did {person} get in Kenya?",
    "how many horses does the farm keep?", "what colour are the curtains in the guest bathroom?",
    "which lottery numbers did {person} pick?", "where is the family grave of {person}?",
    "what is the serial number of the accordion?", "who won the chess tournament in Reykjavik?",
)  # fmt: skip

#: A note and a question about it that share no content word.
PARAPHRASES = (
    ("Bought running shoes before the marathon.", "what gear did I get for jogging?"),
    ("The physician prescribed pills against high blood pressure.", "which medicine treats my hypertension?"),
    ("Our landlord raises the rent in spring.", "will the flat become more expensive?"),
    ("Granny turned ninety, cake in the garden.", "how old is my grandmother?"),
    ("The car broke down on the motorway and was towed.", "what happened to my vehicle on the highway?"),
    ("The plumber stopped the leaking tap in the kitchen.", "who repaired the dripping faucet?"),
    ("Adopted a kitten from the animal shelter.", "which pet did we take in?"),
    ("Signed the mortgage papers at the bank.", "when did I agree to the home loan?"),
    ("The flight to Lisbon was cancelled because of fog.", "why could the plane not take off?"),
    ("The boss granted me two extra days of holiday.", "how much additional vacation did my manager allow?"),
    ("Hired a babysitter for Saturday evening.", "who looks after the children at the weekend?"),
    ("The laptop's battery no longer charges.", "what is wrong with my notebook computer?"),
    ("Uncle Karl sold his vineyard.", "which relative gave up making wine?"),
    ("Planted tulips and daffodils along the fence.", "what flowers grow in our yard?"),
    ("The optician says that I need stronger glasses.", "did my eyesight get worse?"),
    ("Piano lessons every Thursday from now on.", "which instrument am I learning?"),
    ("The burglar alarm went off at midnight.", "what noise woke us in the dark?"),
    ("Swapped the petrol mower for an electric one.", "which machine do I cut the grass with?"),
    ("The choir sang carols in the church.", "where was the Christmas concert?"),
    ("Caught a cold and stayed in bed.", "when did I feel sick?"),
    ("The solicitor drafted my last will.", "which lawyer prepared the testament?"),
    ("Cooked lentil soup from scratch.", "what vegetarian meal did I make?"),
    ("Our firm will merge with a rival.", "is the company joining a competitor?"),
    ("The parcel was stolen from the doorstep.", "which package disappeared?"),
    ("Quit smoking for good.", "since when do I live without cigarettes?"),
    ("The cyclist injured his knee in a crash.", "who was hurt in the bike accident?"),
    ("Enrolled our son at the primary school.", "where does the boy get educated?"),
    ("Donated old clothes to charity.", "what did I do with the used garments?"),
    ("The novelist won a literary prize.", "which author received an award?"),
    ("Painted the walls pale green.", "what colour did we choose for the paintwork of the house?"),
)
#: Questions about a day, by language: yesterday, the day before yesterday, three days ago, last Wednesday.
DAYS = {
    "en": ("what did I do yesterday?", "what happened the day before yesterday?", "what did I do three days ago?",
           "what did I write last Wednesday?"),
    "de": ("Was habe ich gestern gemacht?", "Was war vorgestern?", "Was habe ich vor drei Tagen gemacht?",
           "Was habe ich letzten Mittwoch notiert?"),
    "fr": ("Qu'est-ce que j'ai fait hier ?", "Qu'ai-je fait avant-hier ?", "Qu'ai-je fait il y a trois jours ?",
           "Qu'ai-je noté mercredi dernier ?"),
    "es": ("¿Qué hice ayer?", "¿Qué hice anteayer?", "¿Qué hice hace tres días?", "¿Qué anoté el miércoles pasado?"),
    "zh": ("昨天我做了什么？", "前天我做了什么？", "三天前我做了什么？", "上周三我做了什么？"),
    "ja": ("昨日は何をしましたか？", "一昨日は何をしましたか？", "三日前は何をしましたか？",
           "先週の水曜日は何をしましたか？"),
    "ko": ("어제 무엇을 했나요?", "그저께 무엇을 했나요?", "3일 전에 무엇을 했나요?", "지난주 수요일에 무엇을 했나요?"),
}  # fmt: skip
#: Questions about a week or a month: last week, the month of June.
RANGES = {
    "en": ("what did I do last week?", "what happened in June 2025?"),
    "de": ("Was habe ich letzte Woche gemacht?", "Was war im Juni 2025?"),
    "fr": ("Qu'ai-je fait la semaine dernière ?", "Que s'est-il passé en juin 2025 ?"),
    "es": ("¿Qué hice la semana pasada?", "¿Qué pasó en junio de 2025?"),
    "zh": ("上周我做了什么？", "2025年6月发生了什么？"),
    "ja": ("先週は何をしましたか？", "2025年6月には何がありましたか？"),
    "ko": ("지난주에 무엇을 했나요?", "2025년 6월에 무슨 일이 있었나요?"),
}
#: A day together with other words: the everyday line of that day, and the question.
DAY_AND_WORDS = (
    ("Lunch with {person} at the canteen.", "who did I have lunch with yesterday?", 1),
    ("Lunch with {person} at the market.", "who did I have lunch with last Friday?", 3),
    ("Call with {customer} about delivery.", "which customer did I call last Tuesday?", 6),
    ("Call with {customer} about a refund.", "which customer did I call last Thursday?", 4),
)


class LookAlike(NamedTuple):
    """Two lines of almost the same words, the second one newer, and a question that only the first one answers."""

    line: str
    other: str
    question: str
    keys: tuple[str, ...]


#: The second line is about another thing, so it does not change the first.
LOOK_ALIKES = (
    LookAlike("The alarm code of the {city} garage is {n}.", "The alarm code of the {city} cellar is {m}.",
              "what is the alarm code of the {city} garage?", ("city",)),
    LookAlike("{person} pays {n} euros for parking.", "{other} pays {m} euros for parking.",
              "how much does {person} pay for parking?", ("person", "other")),
    LookAlike("{project} runs its load tests on {weekday}.", "{project} runs its cleanup jobs on {weekday2}.",
              "on which day does {project} run its load tests?", ("project", "weekday")),
    LookAlike("The first instalment for {vendor} is {n} euros.", "The second instalment for {vendor} is {m} euros.",
              "how much is the first instalment for {vendor}?", ("vendor",)),
    LookAlike("{person} heads the {team} guild in {city}.", "{other} heads the {team} guild in {city2}.",
              "who heads the {team} guild in {city}?", ("team", "person", "other", "city")),
    LookAlike("{customer} begins its trial at {time}.", "{customer} begins its training at {time2}.",
              "when does {customer} begin its trial?", ("customer", "time")),
)  # fmt: skip


class List(NamedTuple):
    """A line that is told several times with another value of its last key, and the question for all of them."""

    note: str
    question: str
    keys: tuple[str, ...]


LISTS = (
    List("{customer} asked for the {feature} again.", "which customers asked for the {feature}?",
         ("feature", "customer")),
    List("Flew to {city} for {project}.", "which cities did I fly to for {project}?", ("project", "city")),
    List("{person} volunteers for the {event}.", "who volunteers for the {event}?", ("event", "person")),
    List("Bug in {project}: {bug}.", "which bugs does {project} have?", ("project", "bug")),
    List("Bought {gift} for {child}.", "what did I buy for {child}?", ("child", "gift")),
)  # fmt: skip
WORDS |= {
    "event": ("street fair", "blood drive", "food bank", "school play"),
    "bug": ("the cart forgets coupons", "dates are off by one", "uploads stall", "the menu flickers", "totals differ"),
    "gift": ("a kite", "rubber boots", "a chess set", "a lantern", "crayons", "a jigsaw"),
    "building": ("barn", "chapel", "boathouse", "cottage", "studio", "greenhouse"),
    "restaurant": ("the Lantern", "Chez Odette", "the Old Mill", "Taverna Kostas", "the Blue Door"),
}  # fmt: skip


class Slot(NamedTuple):
    """What a question asks for, in a line that has it and in a line that has everything else."""

    line: str
    without: str
    question: str
    keys: tuple[str, ...]


SLOTS = {
    "how much": Slot("The new roof of the {building} cost {n} thousand euros.",
                     "The new roof of the {building} is finished and looks good.",
                     "how much did the roof of the {building} cost?", ("building",)),
    "when": Slot("{person} has an appointment with the notary on the {n}th of {month}.",
                 "{person} has an appointment with the notary about the house.",
                 "when is {person}'s appointment with the notary?", ("person", "month")),
    "who": Slot("{person} repaired the heating of the {building}.",
                "The heating of the {building} was repaired at last.",
                "who repaired the heating of the {building}?", ("building", "person")),
    "where": Slot("The team dinner of {project} is at {restaurant} in {city}.",
                  "The team dinner of {project} was great fun for everyone.",
                  "where is the team dinner of {project}?", ("project", "restaurant", "city")),
    "why": Slot("{customer} cancelled the workshop because its budget was cut.",
                "{customer} cancelled the workshop on short notice.",
                "why did {customer} cancel the workshop?", ("customer",)),
    "how many": Slot("{n} guests come to the summer party of the {team} team.",
                     "Guests of the summer party of the {team} team need a bigger tent.",
                     "how many guests come to the summer party of the {team} team?", ("team",)),
    "how long": Slot("The certificate of {vendor} is valid for {k} years.",
                     "The certificate of {vendor} is valid and was filed.",
                     "how long is the certificate of {vendor} valid?", ("vendor",)),
}  # fmt: skip
#: The same in other languages: a line with its question, and a line without what its question asks for.
FOREIGN_SLOTS = {
    "de": (
        ("Die Reparatur der Waschmaschine hat 140 Euro gekostet.",
         "Wie viel hat die Reparatur der Waschmaschine gekostet?",
         "Die Reparatur der Spülmaschine hat gut geklappt.", "Wie viel hat die Reparatur der Spülmaschine gekostet?"),
        ("Anja hat das Sommerfest abgesagt, weil es regnet.", "Warum hat Anja das Sommerfest abgesagt?",
         "Jens hat die Radtour abgesagt.", "Warum hat Jens die Radtour abgesagt?"),
    ),
    "fr": (
        ("La réparation du vélo a coûté 60 euros.", "Combien a coûté la réparation du vélo ?",
         "La réparation du portail est terminée.", "Combien a coûté la réparation du portail ?"),
        ("Le concert de Claire a lieu le 8 mai.", "Quand a lieu le concert de Claire ?",
         "Le spectacle de Luc était complet.", "Quand a lieu le spectacle de Luc ?"),
    ),
    "es": (
        ("La reparación de la lavadora costó 95 euros.", "¿Cuánto costó la reparación de la lavadora?",
         "La reparación del ascensor ya está hecha.", "¿Cuánto costó la reparación del ascensor?"),
        ("El examen de Marta es el 3 de junio.", "¿Cuándo es el examen de Marta?",
         "El examen de Pablo salió muy bien.", "¿Cuándo es el examen de Pablo?"),
    ),
    "zh": (
        ("修洗衣机花了三百二十元。", "修洗衣机花了多少钱？", "修电梯的师傅很有耐心。", "修电梯花了多少钱？"),
        ("李娜的演出是五月八日。", "李娜的演出是什么时候？", "陈刚的展览很受欢迎。", "陈刚的展览是什么时候？"),
    ),
    "ja": (
        ("洗濯機の修理代は一万二千円だった。", "洗濯機の修理代はいくらでしたか？",
         "冷蔵庫の修理は無事に終わった。", "冷蔵庫の修理代はいくらでしたか？"),
        ("由美さんの発表会は五月八日です。", "由美さんの発表会はいつですか？",
         "太郎さんの試合はとても楽しかった。", "太郎さんの試合はいつですか？"),
    ),
}  # fmt: skip

#: A small notebook in each language: lines with a question as a person asks it, and lines that answer none of them.
SMALL = {
    "en": (
        ("Allergic to nuts, carries a pen in the bag.", "dietary restrictions"),
        ("Dentist moved the check-up to 14 April at 8:30.", "when do I have to be at the dentist?"),
        ("Left the bike at Werner's until the gears are fixed.", "where is my bike?"),
        ("The landlord agreed to pay for the new boiler.", "who pays for the boiler?"),
        ("Chose Postgres over MySQL because of row-level security.", "why did we pick Postgres?"),
        ("Mia's swimming class is 85 euros a term.", "how much do we pay for Mia's swimming?"),
        ("The spare key is with Mrs. Adler on the second floor.", "who has our spare key?"),
        ("Wifi password at the cabin: otter-lake-22.", "what's the wifi password at the cabin?"),
        ("Dad takes his blood pressure pills after breakfast.", "when does dad take his pills?"),
        ("Cancelled the gym, it is always crowded.", "why did I cancel the gym?"),
        ("Rosa recommended the film The Lives of Others.", "what film did Rosa suggest?"),
        ("The car has to be inspected by the end of August.", "when is the car inspection due?"),
    ),
    "de": (
        ("Allergisch gegen Nüsse, hat immer ein Notfallset dabei.", "Welche Allergie habe ich?"),
        ("Zahnarzttermin auf den 14. April um 8:30 verschoben.", "Wann muss ich zum Zahnarzt?"),
        ("Das Fahrrad steht bei Werner, bis die Schaltung repariert ist.", "Wo ist mein Fahrrad?"),
        ("Der Vermieter zahlt die neue Therme.", "Wer bezahlt die Therme?"),
        ("Für Postgres entschieden, weil die Zeilenrechte besser sind.", "Warum haben wir Postgres genommen?"),
        ("Mias Schwimmkurs kostet 85 Euro im Halbjahr.", "Was kostet Mias Schwimmkurs?"),
        ("Der Zweitschlüssel ist bei Frau Adler im zweiten Stock.", "Bei wem liegt der Zweitschlüssel?"),
        ("WLAN-Passwort in der Hütte: ottersee-22.", "Wie lautet das WLAN-Passwort in der Hütte?"),
        ("Papa nimmt seine Blutdrucktabletten nach dem Frühstück.", "Wann nimmt Papa seine Tabletten?"),
        ("Fitnessstudio gekündigt, es ist immer zu voll.", "Warum habe ich das Fitnessstudio gekündigt?"),
        ("Rosa hat den Film Das Leben der Anderen empfohlen.", "Welchen Film hat Rosa empfohlen?"),
        ("Das Auto muss bis Ende August zum TÜV.", "Bis wann muss das Auto zum TÜV?"),
    ),
    "fr": (
        ("Allergique aux noix, garde toujours un stylo dans le sac.", "À quoi suis-je allergique ?"),
        ("Le dentiste a déplacé le contrôle au 14 avril à 8 h 30.", "Quand est-ce que je vais chez le dentiste ?"),
        ("Le vélo est chez Werner, il répare le dérailleur.", "Où est mon vélo ?"),
        ("Le propriétaire paie la nouvelle chaudière.", "Qui paie la chaudière ?"),
        ("On a pris Postgres parce que les droits par ligne sont meilleurs.", "Pourquoi avons-nous pris Postgres ?"),
        ("Le cours de natation de Mia coûte 85 euros par semestre.", "Combien coûte la natation de Mia ?"),
        ("Le double de la clé est chez Mme Adler au deuxième étage.", "Qui a le double de notre clé ?"),
        ("Mot de passe du wifi au chalet : loutre-22.", "Quel est le mot de passe du wifi au chalet ?"),
        ("Papa prend ses comprimés pour la tension après le petit-déjeuner.", "Quand papa prend-il ses comprimés ?"),
        ("J'ai résilié la salle de sport, elle est toujours bondée.", "Pourquoi ai-je résilié la salle de sport ?"),
        ("Rosa a recommandé le film La Vie des autres.", "Quel film Rosa a-t-elle recommandé ?"),
        ("La voiture doit passer le contrôle technique avant fin août.", "La voiture passe le contrôle quand ?"),
    ),
    "es": (
        ("Alérgico a los frutos secos, lleva siempre un inyector.", "¿A qué soy alérgico?"),
        ("El dentista cambió la revisión al 14 de abril a las 8:30.", "¿Cuándo tengo que ir al dentista?"),
        ("La bicicleta está en el taller de Werner por las marchas.", "¿Dónde está mi bicicleta?"),
        ("El casero paga la caldera nueva.", "¿Quién paga la caldera?"),
        ("Elegimos Postgres porque los permisos por fila son mejores.", "¿Por qué elegimos Postgres?"),
        ("La natación de Mia cuesta 85 euros al trimestre.", "¿Cuánto pagamos por la natación de Mia?"),
        ("La llave de repuesto la guarda la señora Adler del segundo.", "¿Quién tiene nuestra llave de repuesto?"),
        ("Contraseña del wifi de la cabaña: nutria-22.", "¿Cuál es la contraseña del wifi de la cabaña?"),
        ("Papá toma las pastillas de la tensión después del desayuno.", "¿Cuándo toma papá sus pastillas?"),
        ("Me di de baja del gimnasio, siempre está lleno.", "¿Por qué dejé el gimnasio?"),
        ("Rosa recomendó la película La vida de los otros.", "¿Qué película recomendó Rosa?"),
        ("El coche tiene que pasar la inspección antes de septiembre.", "¿Cuándo toca la inspección del coche?"),
    ),
    "zh": (
        ("对坚果过敏，包里常备急救药。", "我对什么过敏？"),
        ("牙医把检查改到四月十四日八点半。", "什么时候去看牙医？"),
        ("自行车放在老王店里修变速。", "我的自行车在哪儿？"),
        ("新锅炉的钱由房东出。", "锅炉的钱谁出？"),
        ("选了 Postgres，因为行级权限更好。", "为什么选 Postgres？"),
        ("小美的游泳课每学期八百五十元。", "小美游泳课多少钱？"),
        ("备用钥匙在二楼李阿姨那里。", "谁有我们家的备用钥匙？"),
        ("小木屋的无线密码：otter-lake-22。", "小木屋的无线密码是多少？"),
        ("爸爸早饭后吃降压药。", "爸爸什么时候吃药？"),
        ("健身房退了，人总是太多。", "为什么退了健身房？"),
        ("罗莎推荐了电影《窃听风暴》。", "罗莎推荐了哪部电影？"),
        ("汽车年检八月底到期。", "汽车年检什么时候到期？"),
    ),
    "ja": (
        ("ナッツのアレルギーがあり、薬をいつも持ち歩く。", "何のアレルギーがある？"),
        ("歯医者の検診は四月十四日の八時半に変更。", "歯医者はいつ？"),
        ("自転車は変速機の修理で田中さんの店に預けた。", "自転車はどこにある？"),
        ("新しい給湯器の費用は大家さんが払う。", "給湯器の費用は誰が払う？"),
        ("行レベルの権限が良いので Postgres を選んだ。", "なぜ Postgres を選んだ？"),
        ("美羽の水泳教室は学期ごとに八千五百円。", "美羽の水泳教室はいくら？"),
        ("合鍵は二階の安達さんが持っている。", "合鍵を持っているのは誰？"),
        ("山小屋のWi-Fiのパスワードは otter-lake-22。", "山小屋のWi-Fiのパスワードは？"),
        ("父は朝食の後に血圧の薬を飲む。", "父はいつ薬を飲む？"),
        ("いつも混んでいるのでジムを解約した。", "どうしてジムをやめた？"),
        ("ローザが映画「善き人のためのソナタ」を薦めてくれた。", "ローザが薦めた映画は？"),
        ("車検は八月末まで。", "車検はいつまで？"),
    ),
}  # fmt: skip
SMALL_EVERYDAY = {
    "en": ("Walked to the market, bought cheese.", "Called dad about the weekend.", "Rain all day, stayed in.",
           "Watched a film with Rosa.", "The car needs washing.", "Mia lost a tooth.", "Long talk with the landlord.",
           "Cooked for eight."),
    "de": ("Auf dem Markt Käse gekauft.", "Mit Papa über das Wochenende telefoniert.", "Den ganzen Tag Regen.",
           "Mit Rosa einen Film gesehen.", "Das Auto muss gewaschen werden.", "Mia hat einen Zahn verloren.",
           "Langes Gespräch mit dem Vermieter.", "Für acht Leute gekocht."),
    "fr": ("Acheté du fromage au marché.", "Parlé avec papa du week-end.", "Pluie toute la journée.",
           "Regardé un film avec Rosa.", "La voiture est sale.", "Mia a perdu une dent.",
           "Longue discussion avec le propriétaire.", "Cuisiné pour huit."),
    "es": ("Compré queso en el mercado.", "Hablé con papá del fin de semana.", "Llovió todo el día.",
           "Vi una película con Rosa.", "El coche está sucio.", "A Mia se le cayó un diente.",
           "Larga charla con el casero.", "Cociné para ocho."),
    "zh": ("去市场买了奶酪。", "和爸爸聊了周末的安排。", "下了一整天雨。", "和罗莎看了一部电影。", "车该洗了。",
           "小美掉了一颗牙。", "和房东谈了很久。", "给八个人做饭。"),
    "ja": ("市場でチーズを買った。", "父と週末の話をした。", "一日中雨だった。", "ローザと映画を見た。",
           "車を洗わないといけない。", "美羽の歯が抜けた。", "大家さんと長く話した。", "八人分の料理を作った。"),
}  # fmt: skip
