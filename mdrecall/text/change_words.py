"""The words that tell how two statements differ: times and units, links, negations, and words that announce a change.

Compiled for this project. Words are folded as the analyser folds them. Each set serves all languages at once: a word
that is missing makes a change harder to recognise, it does not invent one.
"""

#: Months and days of the week: part of a value, never what a statement is about.
_DATES = """
january february march april may june july august september october november december jan feb mar apr jun jul aug sep
sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays
fridays saturdays sundays mon tue wed thu fri sat sun noon midnight morning evening afternoon januar februar marz
maerz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag montags
dienstags mittwochs donnerstags freitags samstags sonntags uhr mittag mitternacht janvier fevrier mars avril juin
juillet aout septembre octobre novembre decembre lundi mardi mercredi jeudi vendredi samedi dimanche midi minuit enero
febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre lunes martes miercoles jueves
viernes sabado domingo gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre lunedi martedi
mercoledi giovedi venerdi sabato domenica janeiro fevereiro marco maio junho julho setembro outubro novembro dezembro
segunda terca quarta quinta sexta januari februari maart mei augustus maandag dinsdag woensdag donderdag vrijdag
zaterdag zondag mandag tisdag onsdag torsdag fredag lordag sondag tirsdag stycznia lutego marca kwietnia maja czerwca
lipca sierpnia wrzesnia pazdziernika listopada grudnia poniedzialek wtorek sroda czwartek piatek sobota niedziela
poniedzialki wtorki srody czwartki piatki января февраля марта апреля мая июня июля августа сентября октября ноября
декабря понедельник вторник среда среду четверг пятница пятницу суббота субботу воскресенье
"""
DATES = frozenset(_DATES.split())
#: Units and parts of addresses and numbers: they go with a value and separate nothing.
_UNITS = """
am pm oclock past h hour hours minute minutes min day days week weeks month months year years eur euro euros usd dollar
dollars gbp pound pounds chf kr pln kg g lb km m cm mm mile miles gb mb tb kb ms l ml percent degrees street road
avenue lane floor building terminal gate strasse str weg platz stock rue etage calle via piazza rua piso stunde
stunden minuten tag tage woche wochen monat monate jahr jahre heure heures jour jours semaine mois ans hora horas dia
dias semana meses ano anos giorno giorni settimana uur dagen maand jaar
"""
UNITS = frozenset(_UNITS.split())
#: Numbers and places in an order as words. Those that are other words elsewhere, such as Italian *due*, are left out.
_NUMBER_WORDS = """
half quarter two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty first second
third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth zwei drei vier funf sechs sieben acht neun zehn
zwolf ersten zweiten dritten vierten funften sechsten siebten achten neunten zehnten erste zweite dritte vierte funfte
sechste deux trois quatre cinq huit neuf premier premiere deuxieme troisieme quatrieme cinquieme sixieme septieme
huitieme dos tres cuatro cinco seis siete ocho nueve diez primer primera segundo segunda tercer tercera cuarto quinto
sexto septimo octavo quattro cinque sette otto dieci primo secondo terzo sesto settimo ottavo dois quatro sete oito
dez primeiro primeira terceiro terceira quarto setimo oitavo twee vijf zes zeven negen tien eerste tweede derde vierde
vijfde zesde
"""
NUMBER_WORDS = frozenset(_NUMBER_WORDS.split())
#: Titles in front of a name; they tell nobody apart. Before another word they are no titles: "Meine Frau ist krank".
_TITLES = "dr dra mr mrs ms mx prof professor herr frau mme mlle sr sra senor senora sig dott dhr mevr pani"
TITLES = frozenset(_TITLES.split())
#: Between a verb and a value these say where something is, and it is at one place at a time.
_PLACE_WORDS = """
under behind beside near opposite above below inside outside unter hinter neben sous sobre bajo detras sulla sotto
dietro onder achter naast
"""
PLACE_WORDS = frozenset(_PLACE_WORDS.split())
#: In another language these mean something else, so they count in a statement of their language only.
_PLACE_LINKS = "in on at im auf an am bei dans sur chez au en nel nella sul no na em sob op bij i pa w pod 在"
PLACE_LINKS = PLACE_WORDS.union(_PLACE_LINKS.split())
#: A number after one of these names a thing, as in ``phase 2``; it is no value of that thing.
_NUMBERED = """
phase step part chapter section page volume item task ticket issue invoice order request pr case season episode round
lesson level line row bus flight train tram room figure table question number no nr sprint milestone schritt teil
kapitel seite rechnung aufgabe zug zimmer raum etape partie chapitre page facture salle paso parte capitulo pagina
factura sala passo capitolo fattura stanza hoofdstuk stap factuur kamer rozdzial krok pokoj
"""
NUMBERED = frozenset(_NUMBERED.split())
#: What follows these is what a statement says of its subject. They count in a statement of their language only.
_COPULAS = """
is are was were be been has have had use uses using used like ist sind war waren wird werden hat haben est sont etait
ont es son era eran esta estan e sono erano ha hanno sao foi tem zijn is heeft ar var har er jest sa ma byl byla это
был была
"""
COPULAS = frozenset(_COPULAS.split())
#: What was so need not be so: "The meeting was on Monday" does not end when another one was on Thursday.
_PAST_COPULAS = "was were been had used war waren hatte etait ont era eran foi erano byl byla был была"
PAST_COPULAS = frozenset(_PAST_COPULAS.split())
#: Verbs of the same kind that mean nothing else in another language.
_LINKING_VERBS = """
prefers prefer heisst nutzt nutzen verwendet bevorzugt betragt lautet utilise prefere usa usamos prefiere preferisce
gebruikt heet anvander heter bruger bruker hedder uzywa является
"""
LINKING_VERBS = frozenset(_LINKING_VERBS.split())
#: Statements that differ in one of these say the opposite of each other.
_NEGATIONS = """
not no never none neither nor cannot without stopped quit nicht kein keine keinen keinem keiner nie niemals ohne pas
jamais aucun aucune rien sans nunca tampoco sin ninguno ninguna non senza nessuno nao nem sem nenhum niet geen nooit
zonder inte ej aldrig ingen inga ikke aldri ei nie bez не нет никогда без
"""
NEGATIONS = frozenset(_NEGATIONS.split())
#: Beside one of these, ``no`` is Portuguese and means *in the*.
PORTUGUESE = frozenset(("o", "os", "da", "do", "das", "dos", "em", "ao", "um", "uma"))
#: Words of a statement that replaces an earlier one. They belong neither to its subject nor to its value.
_CUES = """
now nowadays currently anymore longer since again already instead actually update updated correction new newly these
jetzt nun inzwischen mittlerweile mehr ab seit wieder stattdessen neu neue neuer neuerdings korrektur maintenant
desormais plus depuis nouveau ahora ya desde actualmente mas nuevo adesso ora piu ormai dal nuovo agora ja atualmente
mais desde novo nu tegenwoordig meer sinds nuvarande langre nuvaerende teraz juz obecnie теперь сейчас больше уже
"""
CUES = frozenset(_CUES.split())
#: Verbs that announce another value; one of them in a statement says that an earlier one no longer holds.
_CHANGE_VERBS = """
moved move moves switched switch changed change changes replaced replace replaces renamed migrated relocated
rescheduled postponed upgraded instead became becomes umgezogen gewechselt wechselt geandert verschoben verlegt
ersetzt umbenannt zog demenage change deplace remplace reporte passe mudo cambio cambiado cambia reemplazado
trasladado trasferito cambiato spostato sostituito mudou mudado trocou verhuisd gewijzigd verplaatst vervangen flyttat
flyttade bytt bytte flyttet zmieniono przeniesiono przeprowadzil переехал переехала перешли перенесли
"""
CHANGE_VERBS = frozenset(_CHANGE_VERBS.split())
#: Words that say the same of a person, so that ``moved to`` shares its subject with ``lives in``.
ALIKE = {
    word: key
    for key, words in {
        "=live": "live lives lived resides based moved relocated wohnt lebt umgezogen zog habite vit demenage vive mudo"
        " abita vive trasferito mora mudou woont verhuisd bor flyttat flyttade mieszka живет переехал переехала",
        "=work": "work works worked working job joined joins employed arbeitet travaille trabaja lavora trabalha werkt"
        " arbetar arbejder arbeider pracuje работает",
    }.items()
    for word in words.split()
}
#: Groups of states, one on each line. Within a group one state ends the other.
_STATES = """
broken repaired fixed working works down up kaputt repariert defekt casse cassee repare reparee roto rota offline online
single married divorced engaged ledig verheiratet geschieden
red blue green yellow black white grey gray brown orange purple pink silver
rot blau grun gelb schwarz weiss grau braun
rood blauw groen geel zwart wit
rouge bleu vert verte jaune noir blanc
rojo azul verde amarillo negro blanco
rosso giallo nero bianco verde
arreglado arreglada roto rota
rotto rotta riparato riparata
kapot gerepareerd
trasig lagad
zepsuty naprawiony
active inactive paused hold stopped running cancelled canceled finished done complete open closed pending blocked
enabled disabled on off
approved rejected pending
planned cancelled canceled finished archived live
aktiv inaktiv pausiert gestoppt abgesagt fertig offen geschlossen
ouvert ouverte ferme fermee
abierto abierta cerrado cerrada
aperto aperta chiuso chiusa
public private secret
full empty
sick ill healthy well
krank gesund
available unavailable sold reserved
allowed forbidden required optional mandatory
like likes love loves hate hates dislike dislikes enjoys
vegetarian vegan
"""
STATES = tuple(frozenset(line.split()) for line in _STATES.strip().split("\n"))
#: Verbs of one person at a time, so that another name in front of them is another value.
EXCLUSIVE = frozenset(("owns", "leads", "maintains", "manages", "heads", "chairs", "leitet", "dirige", "gestiona"))
_DEFINITE = "the our my der die das unser mein le la l notre el nuestro il lo o a de het"
DEFINITE = frozenset(_DEFINITE.split())
#: One's own: "my dentist" is the same one wherever it is said.
_OWN = """
my our mein meine meinem meiner unser unsere mon ma mes notre nos mi mis nuestro nuestra mio mia nostro nostra meu minha
nosso nossa mijn ons onze min mitt var vart moj moja nasz nasza мой моя наш наша
"""
OWN = frozenset(_OWN.split())
#: What there is one of at a time, so that another value replaces the first, whatever it is.
_SINGLE = """
password passcode pin code address email phone domain port manager boss supervisor dentist doctor therapist landlord
landlady accountant lawyer wife husband girlfriend boyfriend ceo cto deadline birthday salary rent budget timezone
currency browser laptop passwort adresse chef chefin zahnarzt zahnarztin arzt arztin vermieter vermieterin hausarzt
ehemann geburtstag gehalt miete medecin dentiste proprietaire comptable patron mari loyer clave contrasena direccion
jefe jefa dentista medico casero marido indirizzo capo affitto senha endereco chefe wachtwoord adres baas tandarts
huisarts losenord tandlakare haslo szef dentysta пароль адрес начальник врач
密码 密碼 地址 电话 電話 价格 價格 生日 经理 經理 老板 老闆 牙医 牙醫 医生 老师 老師 房东 房東 丈夫 妻子 パスワード 住所
値段 誕生日 社長 上司 歯医者 担当 担当者 大家 비밀번호 주소 전화번호 생일 사장 상사 의사 선생님 집주인
"""
SINGLE = frozenset(_SINGLE.split())
#: What one may have several of: another one is no other value.
_SEVERAL = """
brother sister son daughter child friend colleague coworker cousin aunt uncle nephew niece neighbour neighbor teammate
roommate pet dog cat hobby client customer grandson granddaughter bruder schwester sohn tochter kind freund freundin
kollege kollegin nachbar nachbarin tante onkel hund katze frere soeur fils fille ami amie collegue voisin voisine chien
hermano hermana hijo hija amigo amiga colega vecino perro gato fratello sorella figlio figlia amico amica collega
cane gatto irmao irma filho filha broer zus zoon dochter vriend vriendin kat bror syster dotter brat siostra
syn corka брат сестра сын дочь друг
同事 朋友 哥哥 弟弟 姐姐 妹妹 儿子 女儿 友達 同僚 兄 弟 姉 妹 息子 娘 친구 동생 동료 아들 딸
"""
SEVERAL = frozenset(_SEVERAL.split())
#: Labels that stand in front of anything and name no subject.
_PLAIN_LABELS = """
note notes todo done status date time place decision summary action actions owner result results next question answer
update name title type tag tags user assistant system human goal idea plan topic context link source fix bug reason
error problem fault
notiz datum ergebnis frage antwort titel nota fecha titulo resultado
"""
PLAIN_LABELS = frozenset(_PLAIN_LABELS.split())
#: Past events repeat with other values, and none of them replaces another.
_EVENTS = """
went bought met saw ate paid sent made took wrote read ran got gave flew drove slept spent
"""
EVENTS = frozenset(_EVENTS.split())
#: The ending of a Japanese sentence about the past.
JAPANESE_PAST = ("た", "だ")

# Chinese, Japanese and Korean, by character. The analyser cuts these scripts into pairs, not into words.
#: Characters that link the words of a sentence and mean little.
FUNCTION_CHARS = frozenset("的了是在我你他她它们們把将將已有和与與也都就很为為之用于於のはがをにでとへもやねよ")
#: After these comes what is said of the subject.
STRONG_CHARS = frozenset("是在为為用はが")
#: Numbers written as characters.
NUMBER_CHARS = frozenset("一二三四五六七八九十百千万萬两兩")
#: Parts of the names of weekdays.
WEEK_CHARS = frozenset("周週曜요일")
#: Units of time and measure, after a number.
COUNTED_CHARS = frozenset("年月日号號时時点點分秒楼樓층시분년월元円원个個岁歳살人")
PARTICLES = (
    "에서",
    "으로",
    "에게",
    "부터",
    "까지",
    "은",
    "는",
    "이",
    "가",
    "을",
    "를",
    "에",
    "의",
    "로",
    "와",
    "과",
    "도",
)
STRONG_PARTICLES = frozenset(("은", "는", "이", "가"))
_CJK_CUES = """
改成 改为 改為 改到 换成 換成 换到 搬到 搬去 变成 變成 现在 現在 目前 已经 已經 変更
変わった になった 今は いまは 引っ越した 이제 지금은 변경 바뀌었다 바뀜 옮겼다
"""
CJK_CUES = tuple(_CJK_CUES.split())
#: Polite endings and titles. Like titles in other languages, they are no part of what is said.
CJK_ENDINGS = ("です", "でした", "である", "さん")
CJK_NEGATIONS = (
    "不再",
    "没有",
    "沒有",
    "不是",
    "不",
    "没",
    "沒",
    "未",
    "ない",
    "ません",
    "なく",
    "않",
    "없",
    "안 ",
    "못 ",
    "아니",
)

#: The role of each of these words in a statement, for one lookup; of a word in two lists, the last one here counts.
ROLES: dict[str, str] = {
    **dict.fromkeys(UNITS, "unit"),
    **dict.fromkeys((*NEGATIONS, *PLACE_WORDS), "link"),
    **dict.fromkeys(LINKING_VERBS, "strong"),
    **dict.fromkeys(NUMBER_WORDS, "number"),
    **dict.fromkeys(DATES, "date"),
    **dict.fromkeys((*CUES, *CHANGE_VERBS), "cue"),
    **dict.fromkeys(ALIKE, "verb"),
}
